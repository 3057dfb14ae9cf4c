"""PySpark jobs that turn snapshots into findings."""
