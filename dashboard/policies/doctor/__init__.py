"""What kept snapshots show of `*-repartition` topics, and the judgement of each."""
