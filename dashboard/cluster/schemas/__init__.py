"""Message schemas that kafka-python lacks, in Kafka's JSON notation (KIP-848, 932, 1071)."""
