"""Verbs that print findings."""
