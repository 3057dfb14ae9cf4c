"""Orphan partitions: words for them, the rule of last copies, the file of verdicts, the sweep.

Verdicts are reached in `analytics.orphans.orphans`; here they are written, read and held to.
"""
