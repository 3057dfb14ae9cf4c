"""Records kept before a purge deletes them: parts, their proofs, and where they lie.

Whoever purges imports it (`purge`, `cli`, `views`, `ui`); it asks no purge, sends nothing that
changes a cluster, and reads Kafka through `cluster` alone.
"""
