"""Client properties that the demo's producers, consumers and admin clients share."""

from __future__ import annotations

import logging
from typing import Any

LOG = logging.getLogger("lowwater.demo")
# Where nobody set up logging, Python would print every message to stderr after all.
LOG.addHandler(logging.NullHandler())


def client(bootstrap: str, **properties: str) -> dict[str, Any]:
    """librdkafka's properties; its messages go to our logger, not to stderr without end."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "lowwater-demo",
        "logger": LOG,
        "reconnect.backoff.max.ms": "5000",
        **properties,
    }
