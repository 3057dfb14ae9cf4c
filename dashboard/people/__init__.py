"""Who may look, purge and approve, and how they sign in."""
