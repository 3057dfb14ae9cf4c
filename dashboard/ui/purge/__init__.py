"""Parts of the page Purge: the four steps, runs, requests."""
