"""What kept snapshots tell beside their tables: groups that were met, holes, ages, log ends.

Imports safety, topics, store and what stands below.
"""
