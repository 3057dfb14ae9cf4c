"""The service that carries policies out, and what the journal tells of it."""
