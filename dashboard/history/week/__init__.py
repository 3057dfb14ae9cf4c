"""What a policy would have purged in the past, by kept snapshots, bucket by bucket.

`policies/simulate.py` asks for it, and walks it here or in Spark's tasks; it imports what `history`
may.
"""
