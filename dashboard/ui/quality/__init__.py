"""Parts of the page Quality."""
