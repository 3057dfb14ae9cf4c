"""What a page stands on: settings, cluster, tables, the person, the header.

Knows no page.
"""
