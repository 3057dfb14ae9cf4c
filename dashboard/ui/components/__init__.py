"""Pieces of every page: tables, figures, words for states, colours.

Knows no page.
"""
