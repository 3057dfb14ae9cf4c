"""Tests without brokers, Spark or a browser."""
