"""The environment of processes that we start: ours, but for the secret that only collecting needs.

Whoever may look into /proc, and every crash report, reads a process' environment.
"""

from __future__ import annotations

import os

METRICS_TOKEN = "LOWWATER_METRICS_TOKEN"
# For children with many threads that run for weeks. glibc gives each thread an arena of its own and
# hands little of it back, so memory would follow the largest moment of each thread, all added up.
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}


def environment(**changes: str) -> dict[str, str]:
    """Our variables without the bearer token of Prometheus, then `changes`."""
    return {name: value for name, value in os.environ.items() if name != METRICS_TOKEN} | changes
