"""Kafka for the demo and the tests: jars, brokers, the preview of DeleteRecords v3."""
