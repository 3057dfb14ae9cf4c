"""Verbs that collect, serve and check."""
