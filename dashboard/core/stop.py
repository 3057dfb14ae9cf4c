"""A wish to end that a signal handler may tell at any moment.

`threading.Event` takes a lock to be set, and to begin to wait: a handler that runs in the thread
which has just taken it waits for itself, and no further signal ends the process then. `SimpleQueue`
alone is made to be called so (its `put` is reentrant, says the library reference).
"""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue


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
