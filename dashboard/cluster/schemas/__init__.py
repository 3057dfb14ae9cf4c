"""Message schemas that kafka-python does not ship, in Kafka's own JSON notation (KIP-848, 932)."""
