"""The records of a receipt, and of the sizes that it is made from; each with its one JSON.

The JSON is a contract: journals keep it and `run --json` prints it, with sorted keys. Receipts of
earlier releases lack keys: each has the value here that those releases meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, Self, TypeVar

from dashboard.core.clock import format_time, parse_time
from dashboard.domain.model import TopicPartition

Place = tuple[str, int, int]  # topic, partition, broker id
_T = TypeVar("_T")


class _Flat:
    """A record whose JSON is its fields, by name."""

    __slots__ = ()

    def to_json(self) -> dict[str, object]:
        return _sorted(self)

    @classmethod
    def from_json(cls, body: Mapping[str, object]) -> Self:
        return _read(cls, body)


@dataclass(frozen=True, slots=True)
class _Replica:
    """A replica as last looked at; its offsets are None where its broker did not tell them."""

    topic: str
    partition: int
    broker_id: int
    size_bytes: int
    log_start_offset: int | None
    log_end_offset: int | None

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.broker_id


@dataclass(frozen=True, slots=True)
class ReplicaSample(_Replica):
    """One replica as a look saw it; `taken_at`: when, if that is not when the others were."""

    taken_at: datetime | None = None
    log_dir: str | None = None

    def to_json(self) -> dict[str, object]:
        at = format_time(self.taken_at) if self.taken_at else None
        told = {**_sorted(self), "taken_at": at}
        return {k: v for k, v in told.items() if v is not None or k not in ("taken_at", "log_dir")}

    @classmethod
    def from_json(cls, body: Mapping[str, object]) -> ReplicaSample:
        return _read(cls, body, taken_at=parse_time)


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the replicas of some partitions, sorted; `future` ones move to another log dir.

    A run's baseline is one, too: what its receipt begins with.
    """

    taken_at: datetime
    replicas: tuple[ReplicaSample, ...]
    future: tuple[Place, ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "future": [list(place) for place in self.future],
            "replicas": [replica.to_json() for replica in self.replicas],
            "taken_at": format_time(self.taken_at),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, object]) -> Sample:
        return _read(
            cls, body, taken_at=parse_time, replicas=_each(ReplicaSample.from_json), future=_places
        )


@dataclass(frozen=True, slots=True)
class ReplicaReceipt(_Replica):
    """What is known of one replica's bytes: as last looked at, before the request, and since.

    Before the request: `before_bytes` from `start_before` to `end_before`. Of what it has below
    `first_offset`, no lower than the plan's log start, an earlier purge is to free `earlier_bytes`;
    `offsets` lie from there to the target, `moved_before` before it since the plan. `cleaned`: the
    log cleaner works on the topic, too; the purge frees at `most_bytes` (None: nobody knows).

    Since: `fallen_bytes` is by how much its size fell; `seen_bytes` of `seen_records` were written
    where it did not, `doubt_records` where it did. `below_…`: the same, and its log start, by the
    last look before the log start was `past` the target. `own_bytes` left by the last look that saw
    the log start no further than the target; `fell`: some of it after a look that saw it there.

    So `dropped_bytes` left, of which `freed_bytes` are the purge's, sure to `unsure_bytes`. No more
    is counted of a log that `restarted`, that `moved` to another log dir or off its broker, or that
    was `undone` before the purge had reached it. `durable_at`: when a scan of its disk first showed
    the log start there at the target or past it (`receipt.Checkpoints`).
    """

    before_bytes: int
    start_before: int | None
    end_before: int | None = None
    predicted_bytes: int | None = None
    earlier_bytes: int = 0
    first_offset: int | None = None
    offsets: int = 0
    moved_before: int = 0
    cleaned: bool = False
    most_bytes: int | None = None
    below_start: int | None = None
    below_fallen_bytes: int = 0
    below_doubt_records: int = 0
    past: bool = False
    fell: bool = False
    own_bytes: int = 0
    fallen_bytes: int = 0
    seen_bytes: int = 0
    seen_records: int = 0
    doubt_records: int = 0
    dropped_bytes: int = 0
    freed_bytes: int = 0
    retention_bytes: int = 0
    cleaner_bytes: int = 0
    produced_bytes: int = 0
    unsure_bytes: int = 0
    restarted: bool = False
    undone: bool = False
    moved: bool = False
    log_dir: str | None = None
    durable_at: datetime | None = None

    @property
    def left_out(self) -> bool:
        """Whether it is another log by now: what it lost since is none of the purge's doing."""
        return self.restarted or self.moved

    def to_json(self) -> dict[str, object]:
        """`most_bytes` where the log cleaner works; flags and `moved_before` where they are so."""
        body = _sorted(self)
        body["durable_at"] = format_time(self.durable_at) if self.durable_at else None
        del body["cleaned"]
        for name in _ONLY_IF_SO:
            if not body[name]:
                del body[name]
        if not self.cleaned:
            del body["most_bytes"]
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, object]) -> ReplicaReceipt:
        older = {new: body.get(old) for new, old in _ONCE_TOLD_BY.items() if new not in body}
        told = {**body, **older, "cleaned": "most_bytes" in body}
        return _read(cls, told, durable_at=parse_time)


_ONLY_IF_SO = ("moved_before", "restarted", "undone", "moved", "log_dir", "durable_at")
# Which key told the same before there was one of its own.
_ONCE_TOLD_BY = {
    "fallen_bytes": "dropped_bytes", "seen_bytes": "produced_bytes", "own_bytes": "freed_bytes",
    "first_offset": "start_before", "below_start": "start_before",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RequestWait(_Flat):
    """How long a wait-all request of so many partitions took, against what was expected."""

    leader_id: int | None
    partitions: int
    cause: str
    low_seconds: float
    likely_seconds: float
    high_seconds: float
    waited_seconds: float
    timed_out: bool
    inside: bool


@dataclass(frozen=True, slots=True)
class TopicOutcome(_Flat):
    """What a final receipt keeps of one topic and estimator: sums over so many partitions, and
    over all their replicas. `unsure_bytes`: by how much what producers wrote blurs freed bytes.
    """

    topic: str
    method: str
    partitions: int
    low_bytes: int
    predicted_bytes: int
    high_bytes: int
    freed_bytes: int
    unsure_bytes: int = 0

    @property
    def inside(self) -> bool:
        """Whether what was freed lies in the interval that was predicted."""
        low, high = self.low_bytes - self.unsure_bytes, self.high_bytes + self.unsure_bytes
        return low <= self.freed_bytes <= high

    @property
    def error(self) -> float | None:
        """(freed - predicted) ÷ predicted; None where 0 bytes were predicted."""
        off = self.freed_bytes - self.predicted_bytes
        return off / self.predicted_bytes if self.predicted_bytes else None

    def __add__(self, other: TopicOutcome) -> TopicOutcome:
        """Both, of the same topic and estimator."""
        pairs = zip(astuple(self)[2:], astuple(other)[2:], strict=True)
        return TopicOutcome(self.topic, self.method, *(a + b for a, b in pairs))


class Read(NamedTuple):
    """What was read and proved in so many seconds; bytes as they are before compression."""

    seconds: float
    records: float
    raw_bytes: float


_LEAST_SECONDS = 0.5  # what took less tells of starting alone


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """The archive of a run, in `folder` below `url`: how far it is, or what it became.

    `state`: `reading`, `proved` (each partition that may be purged), `incomplete` (some partitions
    are not whole, and are not purged), `failed` (the place refused: nothing is purged). Offsets are
    those of all ranges; `offsets_before` were proved before the worker began, at `began_at`, that
    told this at `told_at`. `records`, `raw_bytes` and `size_bytes` (as stored) are what is proved.
    """

    url: str
    folder: str
    state: str
    began_at: datetime
    told_at: datetime
    partitions: int = 0
    committed: int = 0
    offsets: int = 0
    offsets_done: int = 0
    offsets_before: int = 0
    records: int = 0
    raw_bytes: int = 0
    size_bytes: int = 0

    @property
    def pace(self) -> Read | None:
        """What its last worker read and proved, once it is over; None: nothing to speak of."""
        took = (self.told_at - self.began_at).total_seconds()
        done = self.offsets_done - self.offsets_before
        if self.state not in ("proved", "incomplete") or took < _LEAST_SECONDS or done <= 0:
            return None
        share = done / self.offsets_done
        if not (self.records and self.raw_bytes):
            return None
        return Read(took, self.records * share, self.raw_bytes * share)

    @property
    def seconds_to_go(self) -> float | None:
        """Until all is read, at the pace since this worker began; None: no pace is known yet."""
        took = (self.told_at - self.began_at).total_seconds()
        done = self.offsets_done - self.offsets_before
        if self.state != "reading" or done <= 0 or took <= 0:
            return None
        return (self.offsets - self.offsets_done) * took / done

    def to_json(self) -> dict[str, object]:
        times = {name: format_time(getattr(self, name)) for name in ("began_at", "told_at")}
        return {**_sorted(self), **times}

    @classmethod
    def from_json(cls, body: Mapping[str, object]) -> KeptRecords:
        return _read(cls, body, began_at=parse_time, told_at=parse_time)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Bytes predicted against bytes freed by one run, who took the rest, and the cause of a `gap`.

    Sums over `replicas` are None where there is something to count, but no size of it. `methods`
    are the estimators'; `aside` are replicas of partitions of which nothing was deleted as far as
    is known: followed, not counted, and None once it is `final`. `arrived_at`, `rested_at`: since
    when all replicas are at the target, and all that are alive. Topics that were deleted or made
    anew meanwhile are `gone_topics`; of `remote_topics` no byte is counted. `calibration` is of a
    final one.
    """

    final: bool = False
    predicted_bytes: int | None = None
    freed_bytes: int | None = None
    retention_bytes: int | None = None
    produced_bytes: int | None = None
    cleaner_bytes: int | None = None
    methods: tuple[str, ...] = ()
    unmeasured_partitions: int = 0
    arrived_at: datetime | None = None
    rested_at: datetime | None = None
    measured_at: datetime | None = None
    gone_topics: tuple[str, ...] = ()
    remote_topics: tuple[str, ...] | None = None
    gap: str | None = None
    waits: tuple[RequestWait, ...] = ()
    replicas: tuple[ReplicaReceipt, ...] = ()
    aside: tuple[ReplicaReceipt, ...] | None = None
    calibration: tuple[TopicOutcome, ...] | None = None
    approved_by: str | None = None  # the second person, where one was asked for
    archive: KeptRecords | None = None  # where its records were kept before

    @property
    def measured(self) -> tuple[ReplicaReceipt, ...]:
        """The replicas that are followed, counted or not."""
        return (*self.replicas, *(self.aside or ()))

    def to_json(self) -> dict[str, object]:
        """`aside`, `archive`, `calibration`, `approved_by` and `remote_topics` only where there is
        one.
        """
        body = _sorted(self)
        for name in ("arrived_at", "measured_at", "rested_at"):
            body[name] = format_time(moment) if (moment := getattr(self, name)) else None
        for name in ("aside", "calibration", "replicas", "waits"):
            if (parts := getattr(self, name)) is not None:
                body[name] = [part.to_json() for part in parts]
        for name in ("gone_topics", "methods", "remote_topics"):
            if (listed := getattr(self, name)) is not None:
                body[name] = list(listed)
        body["archive"] = self.archive.to_json() if self.archive else None
        return {k: v for k, v in body.items() if v is not None or k not in _ONLY_IF_THERE}

    @classmethod
    def from_json(cls, body: Mapping[str, object]) -> Receipt:
        replicas = _each(ReplicaReceipt.from_json)
        return _read(
            cls, body, arrived_at=parse_time, rested_at=parse_time, measured_at=parse_time,
            methods=tuple, gone_topics=tuple, remote_topics=tuple,
            waits=_each(RequestWait.from_json), replicas=replicas, aside=replicas,
            calibration=_each(TopicOutcome.from_json), archive=KeptRecords.from_json,
        )  # fmt: skip


_ONLY_IF_THERE = ("aside", "archive", "calibration", "approved_by", "remote_topics")


@cache
def _keys(kind: Any) -> tuple[str, ...]:
    return tuple(sorted(field.name for field in fields(kind)))


@cache
def _values(kind: Any) -> attrgetter[tuple[object, ...]]:
    return attrgetter(*_keys(kind))


def _sorted(value: object) -> dict[str, object]:
    """All fields by name (`asdict` copies every value: ten times slower)."""
    kind: Callable[..., object] = type(value)
    return dict(zip(_keys(kind), _values(kind)(value), strict=True))


def _read(
    kind: Callable[..., _T], body: Mapping[str, object], **decode: Callable[[Any], object]
) -> _T:
    """The record of a JSON object; keys that it does not know, of another release, are left out."""
    told: dict[str, Any] = {name: body[name] for name in _keys(kind) if name in body}
    for name, decoded in decode.items():
        if told.get(name) is not None:
            told[name] = decoded(told[name])
    return kind(**told)


def _each(read: Callable[[Any], _T]) -> Callable[[Any], tuple[_T, ...]]:
    return lambda listed: tuple(read(one) for one in listed)


def _places(listed: list[list[Any]]) -> tuple[Place, ...]:
    return tuple((topic, partition, broker_id) for topic, partition, broker_id in listed)
