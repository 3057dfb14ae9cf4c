"""The environment of processes that we start: ours, but for the secret that only collecting needs.

Whoever may look into /proc, and every crash report, reads a process' environment.
"""

from __future__ import annotations

import os

METRICS_TOKEN = "LOWWATER_METRICS_TOKEN"


def environment(**changes: str) -> dict[str, str]:
    """Our variables without the bearer token of Prometheus, then `changes`."""
    return {name: value for name, value in os.environ.items() if name != METRICS_TOKEN} | changes
