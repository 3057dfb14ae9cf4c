"""Our own metrics, as Prometheus reads them."""
