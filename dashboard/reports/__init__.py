"""The storage report and its files: HTML, PDF, CSV, Parquet."""
