"""The decisions of a purge, without brokers."""
