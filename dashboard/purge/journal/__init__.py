"""The journal: every run, its partitions, and the hash chain of what was meant, sent and seen."""
