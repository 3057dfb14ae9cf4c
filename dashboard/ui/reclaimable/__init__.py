"""Parts of the page Reclaimable, and the what-if."""
