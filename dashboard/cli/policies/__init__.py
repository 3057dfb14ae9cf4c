"""The verb `policies`, one module per word after it."""
