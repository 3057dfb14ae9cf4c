"""Parts of the page Growth: when disks are full, and what would change it."""
