"""What kept snapshots tell beside their tables: groups that were met, holes, ages, log ends.

Imports core, settings and store.
"""
