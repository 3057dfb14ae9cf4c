"""Orphan partitions: the words for them, and the file that carries verdicts to a sweep."""
