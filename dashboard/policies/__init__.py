"""Purges that settings describe and an operator switched on: when, of what, and how much."""
