"""The newest attempt to collect a cluster: when, whether it went well, what brokers it reached.

Snapshots tell of the attempts that went well alone. While all of Kafka is down none is written, and
the newest one still says that every broker answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dashboard.core.errors import LowwaterError, StoreError
from dashboard.domain.model import Broker
from dashboard.store.snapshots import ClusterStore, Store

# An interval is missed now and then by a slow analysis; three are not.
STALE_AFTER_INTERVALS = 3

_UNREACHED = "unreached"  # the folder of a cluster that has not told its id yet; no id is as short


@dataclass(frozen=True, slots=True)
class Seen:
    """One broker as an attempt met it; `error` says why it was not reached."""

    broker_id: int
    reachable: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt gave no snapshot: the error's code, words and next step, never a secret."""

    code: str
    message: str
    next: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the collector last did.

    `ended_at` None: none has ended yet. `trying_since` is when the one began that runs now, or
    whose process was killed. `brokers` is empty where no broker could be asked for the others.
    `every` is the interval of a watch, None for a collect by itself; `left_at` is when a watch
    ended by itself or was ended.
    """

    ended_at: datetime | None = None
    failure: Failure | None = None
    brokers: tuple[Seen, ...] = ()
    trying_since: datetime | None = None
    every: timedelta | None = None
    left_at: datetime | None = None

    @property
    def newest_sign(self) -> datetime | None:
        """When the collector last did anything."""
        return max((at for at in (self.ended_at, self.trying_since) if at), default=None)


@dataclass(slots=True)
class Trying:
    """An attempt in progress; whoever collects says what it met."""

    brokers: tuple[Seen, ...] = field(default=())

    def met(self, brokers: Sequence[Broker]) -> None:
        """The brokers, reached or not, also when the attempt fails later."""
        self.brokers = tuple(Seen(b.broker_id, b.reachable, b.error) for b in brokers)


@contextmanager
def attempt(
    cluster: ClusterStore,
    now: Callable[[], datetime],
    progress: Callable[[str], None],
    every: timedelta | None = None,
) -> Iterator[Trying]:
    """Leaves a trace of what happens inside, also of an error, which goes on to the caller.

    A trace that cannot be written is told and changes nothing else: collecting matters more.
    """
    trying = Trying()
    before = _known(cluster)
    _write(cluster, replace(before, trying_since=now(), every=every, left_at=None), progress)
    try:
        yield trying
    except Exception as error:
        _write(cluster, Attempt(now(), failure_of(error), trying.brokers, None, every), progress)
        raise
    except BaseException:  # Ctrl-C is no failure of the cluster
        _write(cluster, replace(before, every=every), progress)
        raise
    _write(cluster, Attempt(now(), None, trying.brokers, None, every), progress)


@contextmanager
def connecting(
    store: Store,
    known: Callable[[ClusterStore], bool],
    now: Callable[[], datetime],
    progress: Callable[[str], None],
    *,
    again: bool = False,
) -> Iterator[None]:
    """The same for what fails before the cluster has told its id: `known` picks it from the store.

    In a store without any cluster the trace of who tries `again` has a folder of its own, for
    whoever waits there for a first snapshot; one call with a wrong address makes none. Nothing is
    left where no stored cluster, or more than one, is known so.
    """
    try:
        yield
    except LowwaterError as error:
        with suppress(StoreError):
            stored = [ClusterStore(store, i) for i in store.clusters()]
            found = [c for c in stored if known(c)]
            if again and not stored:
                found = [ClusterStore(store, _UNREACHED)]
            if len(found) == 1:
                failed = replace(_known(found[0]), ended_at=now(), failure=failure_of(error))
                _write(found[0], replace(failed, brokers=(), trying_since=None), progress)
        raise


def left(cluster: ClusterStore, at: datetime, progress: Callable[[str], None]) -> None:
    """Note that the watch of this cluster ended in order: nothing is collected from now on."""
    _write(cluster, replace(_known(cluster), trying_since=None, left_at=at), progress)


def read(cluster: ClusterStore) -> Attempt | None:
    """The newest attempt; None in a store that no release with this file wrote.

    Raises StoreError when the file is damaged or the store cannot be reached.
    """
    found = cluster.record("attempt.json", _Stored)
    if found is None:
        return None
    every = None if found.every_seconds is None else timedelta(seconds=found.every_seconds)
    return Attempt(found.at, found.error, found.brokers, found.trying_since, every, found.left_at)


def first(store: Store) -> Attempt | None:
    """The newest attempt of a store that has no cluster yet; None where there was none.

    Raises StoreError as `read` does.
    """
    found = [(sign, made) for cluster in store.begun()
             if (made := read(cluster)) and (sign := made.newest_sign)]  # fmt: skip
    return max(found, key=lambda one: one[0])[1] if found else None


def failure_of(error: Exception) -> Failure:
    """The error in words that any reader of the store may see; of an unforeseen one its kind."""
    if isinstance(error, LowwaterError):
        return Failure(error.code, error.message, error.next_step)
    kind = type(error).__name__
    return Failure("INTERNAL", f"an unexpected {kind} ended it", "Read the collector's own log.")


def _known(cluster: ClusterStore) -> Attempt:
    with suppress(StoreError):
        return read(cluster) or Attempt()
    return Attempt()


def _write(cluster: ClusterStore, value: Attempt, progress: Callable[[str], None]) -> None:
    try:
        cluster.write_record("attempt.json", _stored(value))
    except StoreError as error:
        progress(f"no trace of this attempt is kept: {error.message}")


@dataclass(frozen=True, slots=True)
class _Stored:
    """An attempt as its file has it."""

    ok: bool
    at: datetime | None
    error: Failure | None
    brokers: tuple[Seen, ...]
    trying_since: datetime | None
    every_seconds: float | None
    left_at: datetime | None
    version: int = 1


def _stored(value: Attempt) -> _Stored:
    return _Stored(
        ok=value.failure is None,
        at=value.ended_at,
        error=value.failure,
        brokers=value.brokers,
        trying_since=value.trying_since,
        every_seconds=None if value.every is None else value.every.total_seconds(),
        left_at=value.left_at,
    )
