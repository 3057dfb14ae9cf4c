"""Snapshots and findings as Parquet, on a local disk or at a URL: tables, files, retention.

Imports core, domain and settings.
"""
