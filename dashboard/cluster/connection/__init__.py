"""Connections to brokers: wire, TLS, sign-in, whose cluster it is, Kafka's error codes."""
