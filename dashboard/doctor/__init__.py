"""Whether all is there that Lowwater needs, on this machine and in the cluster."""
