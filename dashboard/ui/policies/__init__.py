"""Parts of the page Policies."""
