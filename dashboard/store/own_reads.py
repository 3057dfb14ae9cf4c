"""What Lowwater itself fetched of topics, kept beside the snapshots that its bytes show in.

An archive reads each record that it keeps, and brokers count these bytes as any consumer's. Whoever
asks whether somebody reads a topic unseen takes them off again (`safety/explained`): as many as a
broker was seen to send, and only between two snapshots of which the first was whole before the
reading began and the second was begun after it had ended. That goes by the order of snapshots; a
clock, which the cluster's controller has proved, only tells that one was begun well after the end.
"""

from __future__ import annotations

import secrets
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dashboard.core.errors import StoreError
from dashboard.domain.records import Took
from dashboard.store.snapshot_files import time_of
from dashboard.store.snapshots import ClusterStore

_FOLDER = "reads"
# A snapshot that is begun while the newest note is so old is left out, too: the next one always is.
_NOTED_EACH_SECONDS = 2.0
_SURELY_AFTER = timedelta(minutes=2)  # two proved clocks are no further apart, and one asks slowly


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bytes of a topic that a broker sent."""

    topic: str
    broker_id: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class OwnRead:
    """One reading: `after` is the newest snapshot as it began, `until` the newest one as this was
    written last; `at` is when that was, by a proved clock.
    """

    after: str
    until: str
    fetched: tuple[Fetched, ...] = ()
    at: datetime | None = None
    version: int = 1

    @property
    def is_sound(self) -> bool:
        """Whether it says what notes can say."""
        times = [time_of(name) for name in (self.after, self.until)]
        return None not in times and all(one.size_bytes >= 0 for one in self.fetched)


@dataclass(frozen=True, slots=True)
class Ours:
    """What of our readings one snapshot shows: `fetched` by topic and broker since the snapshots
    before; of the topics in `going_on` we may have been reading when it was taken.
    """

    fetched: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    going_on: frozenset[str] = frozenset()


@contextmanager
def reading(
    cluster: ClusterStore,
    name: str,
    say: Callable[[str], None],
    now: Callable[[], datetime] | None = None,
) -> Iterator[Took]:
    """A reading while the block lasts: it is given what is told, every two seconds and at the end.
    `now` is a proved clock; None: this host's is not.

    A cluster of which nothing is collected has no note. One that cannot be written changes nothing
    else, and is told: the bytes count as somebody's whom nobody knows.
    """
    sent: Counter[tuple[str, int]] = Counter()
    lock, stop = threading.Lock(), threading.Event()
    path = f"{_FOLDER}/{name}.{secrets.token_hex(4)}.json"
    after = until = _newest(cluster) or ""

    def took(topic: str, broker_id: int, size_bytes: int) -> None:
        with lock:
            sent[topic, broker_id] += size_bytes

    def note() -> None:
        nonlocal until
        at = now() if now is not None else None
        until = max(until, _newest(cluster) or "")
        with lock:
            fetched = tuple(Fetched(*key, size) for key, size in sorted(sent.items()))
        try:
            cluster.write_record(path, OwnRead(after, until, fetched, at))
        except StoreError as error:
            say(f"{error.code}: what is read here will look like an unseen reader: {error.message}")

    def keep() -> None:
        while not stop.wait(_NOTED_EACH_SECONDS):
            note()

    if not after:
        yield took
        return
    note()
    noting = threading.Thread(target=keep, daemon=True, name="own reads")
    noting.start()
    try:
        yield took
    finally:
        stop.set()
        noting.join()
        note()


def _newest(cluster: ClusterStore) -> str | None:
    """None: nothing is kept of this cluster, or nobody can tell."""
    with suppress(StoreError):
        return cluster.latest("snapshots")
    return None


@dataclass(frozen=True, slots=True)
class OwnReads:
    """The notes of our readings, and `every` kept snapshot in whose order they stand."""

    notes: tuple[OwnRead, ...] = ()
    every: tuple[str, ...] = ()

    def placed(self, taken: Mapping[str, datetime | None]) -> dict[str, Ours]:
        """What of our readings each of these snapshots shows, in the order of their ids; `taken`:
        when each was begun, by a proved clock, or None.
        """
        if not self.notes:
            return {}
        ordered = sorted(taken)
        fetched: dict[str, dict[str, Counter[int]]] = {name: {} for name in ordered}
        going_on: dict[str, set[str]] = {name: set() for name in ordered}
        for note in self.notes:
            # The one that was being taken as it ended: it may have asked some brokers before.
            behind = self.every[bisect_right(self.every, note.until) :]
            last = behind[0] if behind else note.until
            begun = taken.get(last)
            if note.at is not None and begun is not None and begun > note.at + _SURELY_AFTER:
                last = note.until
            first, end = bisect_right(ordered, note.after), bisect_right(ordered, last)
            topics = {one.topic for one in note.fetched}
            for name in ordered[first:end]:
                going_on[name] |= topics
            if not behind or end == len(ordered):
                continue  # no snapshot shows all of it yet
            of = fetched[ordered[end]]
            for one in note.fetched:
                of.setdefault(one.topic, Counter())[one.broker_id] += one.size_bytes
        return {name: Ours(fetched[name], frozenset(going_on[name])) for name in ordered}


def kept(cluster: ClusterStore) -> OwnReads:
    """All of a cluster. A note that cannot be read is left out: its bytes are nobody's then.

    Raises StoreError where notes or snapshots cannot be listed.
    """
    notes = tuple(_notes(cluster).values())
    return OwnReads(notes, tuple(cluster.ids("snapshots")) if notes else ())


def forget(cluster: ClusterStore) -> None:
    """Remove the notes of readings that ended before the oldest kept snapshot was taken."""
    with suppress(StoreError, OSError):  # the next collect tries again
        notes = _notes(cluster)
        oldest = min(cluster.ids("snapshots"), default="") if notes else ""
        for path, note in notes.items():
            if note.until < oldest:
                cluster.fs.rm(f"{cluster.path}/{path}")


def _notes(cluster: ClusterStore) -> dict[str, OwnRead]:
    found = {}
    paths = (f"{_FOLDER}/{name}" for name in cluster.files(_FOLDER) if name.endswith(".json"))
    for path in paths:
        with suppress(StoreError):  # damaged
            if (note := cluster.record(path, OwnRead)) is not None and note.is_sound:
                found[path] = note
    return found
