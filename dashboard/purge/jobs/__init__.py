"""Confirmed purges as processes: the queue, the second person's requests, the workers."""
