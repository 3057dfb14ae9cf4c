"""The Spark session: here, on a cluster, through Connect; its memory and its start."""
