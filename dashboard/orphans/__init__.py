"""Orphan partitions: the file of verdicts, disks that nobody listed, the sweep.

Verdicts are reached in `analytics.orphans.orphans`; here they are written, read and held to.
"""
