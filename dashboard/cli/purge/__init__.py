"""Verbs that plan, run and read purges."""
