"""One screen per file: each loads findings, lets the reader choose, and shows."""
