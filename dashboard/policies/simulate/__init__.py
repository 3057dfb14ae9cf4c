"""What a policy would have done, by kept snapshots. Reads the store alone."""
