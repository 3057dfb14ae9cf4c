"""Findings of who reads what: last known offsets, targets, what stands in the way."""
