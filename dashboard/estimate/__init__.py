"""Offsets to bytes: curves of replicas, and what a retention keeps. Analysis and purge share it."""
