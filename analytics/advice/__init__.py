"""Findings that propose something: idle topics, a retention that fits."""
