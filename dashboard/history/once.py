"""What kept snapshots tell, read once by a process that looks again and again: they never change.

The service of policies looks every few seconds, and reads of all snapshots since the newest
analysis who read what.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Concatenate, Generic, ParamSpec, TypeVar

from dashboard.store.snapshots import ClusterStore

P = ParamSpec("P")
T = TypeVar("T")


class Once(Generic[P, T]):
    """`read(store, snapshot, …)`, whose answers stay: those of the last reads, up to `most` things
    in all. What it raises is not kept. Of tables that a view of one bucket shows in part nothing
    may be read: it lies where the whole store does.
    """

    def __init__(
        self, read: Callable[Concatenate[ClusterStore, str, P], Sequence[T]], most: int
    ) -> None:
        self._read, self._most, self._held = read, most, 0
        self._kept: OrderedDict[Hashable, Sequence[T]] = OrderedDict()
        self._lock = Lock()

    def __call__(
        self, store: ClusterStore, snapshot: str, *about: P.args, **named: P.kwargs
    ) -> Sequence[T]:
        key = store.uri, snapshot, about, tuple(named.items())
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = self._read(store, snapshot, *about, **named)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = found
                self._held += len(found) + 1
            while self._held > self._most:
                _, oldest = self._kept.popitem(last=False)
                self._held -= len(oldest) + 1
        return found
