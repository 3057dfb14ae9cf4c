"""What long-running processes share: the environment of those that we start, ours but for the
secret that only collecting needs; and the wish to end, as a signal handler may tell it.

Whoever may look into /proc, and every crash report, reads a process' environment.
"""

from __future__ import annotations

import os
from contextlib import suppress
from queue import Empty, SimpleQueue

METRICS_TOKEN = "LOWWATER_METRICS_TOKEN"
# For children with many threads that run for weeks. glibc gives each thread an arena of its own and
# hands little of it back, so memory would follow the largest moment of each thread, all added up.
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}


def environment(**changes: str) -> dict[str, str]:
    """Our variables without the bearer token of Prometheus, then `changes`."""
    return {name: value for name, value in os.environ.items() if name != METRICS_TOKEN} | changes


# A wish to end that a signal handler may tell at any moment.
#
# `threading.Event` takes a lock to be set, and to begin to wait: a handler that runs in the thread
# which has just taken it waits for itself, and no further signal ends the process then.
# `SimpleQueue` alone is made to be called so (its `put` is reentrant, says the library reference).


class Stop:
    """Like an Event that nobody clears; one thread waits."""

    def __init__(self) -> None:
        self._told = False
        self._calls: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """End what waits, now and from now on."""
        self._told = True
        self._calls.put(None)

    def is_set(self) -> bool:
        """Whether somebody told it."""
        return self._told

    def wait(self, seconds: float) -> bool:
        """Until it is told, for at most so long; whether it was."""
        if not self._told:
            with suppress(Empty):
                self._calls.get(timeout=max(seconds, 0.0))
        return self._told
