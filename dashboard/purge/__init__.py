"""Purges: targets, plans, guards, the journal, and the workers that run them."""
