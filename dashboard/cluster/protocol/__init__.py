"""Messages of Kafka's protocol as records and columns: encoded and decoded, nothing decided."""
