"""What every room stands on: errors, clock, canonical JSON, units, small helpers.

Imports nothing of this product.
"""
