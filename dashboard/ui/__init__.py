"""What the pages share: formats, tables, charts, states and the what-if."""
