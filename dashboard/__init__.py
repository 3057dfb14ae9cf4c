"""Lowwater's control plane: everything that reads Kafka, keeps snapshots and purges."""

__version__ = "0.1.0"
