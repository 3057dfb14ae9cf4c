"""A broker's disk: every segment and checkpoint entry of its log dirs. Reads only."""
