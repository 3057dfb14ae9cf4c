"""Takes snapshots of a cluster, once or in a loop, and has each one analyzed."""
