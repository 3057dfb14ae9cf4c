"""All that speaks to Kafka: one file per noun, one result per partition, value or error."""
