"""Kafka's nouns: records of what brokers tell, names of topics and metrics, rights.

Imports core alone.
"""
