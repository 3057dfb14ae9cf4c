"""The settings file: one module per section, validated once; `settings` reads them all.

Imports core alone.
"""
