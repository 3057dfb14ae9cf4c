"""What a policy would have purged in the past, by kept snapshots, bucket by bucket.

`policies/simulate` asks for it, and walks it here or in Spark's tasks; imports what `history` may.
"""
