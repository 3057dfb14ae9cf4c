"""Carries out a run: recheck, send, read back, until every partition is settled."""
