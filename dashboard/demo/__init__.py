"""A real local Kafka cluster with a workload whose truth is known."""
