"""Parts of the page Followers."""
