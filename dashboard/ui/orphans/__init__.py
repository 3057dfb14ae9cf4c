"""Parts of the page Orphans."""
