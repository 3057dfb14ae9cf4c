"""Broker metrics in: what each broker itself counts, read from its Prometheus exporter."""
