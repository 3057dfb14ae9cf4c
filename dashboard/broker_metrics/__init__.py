"""What brokers count of themselves: read from their exporters or from Prometheus."""
