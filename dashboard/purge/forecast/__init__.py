"""How long each mode of a purge would take, and which replicas would hold it up."""
