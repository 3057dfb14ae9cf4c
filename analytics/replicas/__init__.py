"""Findings of replicas and disks: bytes by offset, trends, growth. Kernels over one bucket."""
