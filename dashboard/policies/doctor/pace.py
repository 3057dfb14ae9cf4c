"""How often repartition topics are purged, by what moved in them, and how often it would do.

A request of a Streams application carries all its partitions of one leader, so requests, and the
interval to advise, are counted by application (Kafka's `TaskManager.maybePurgeCommittedRecords`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from dashboard.domain.columns import Flags, Ints
from dashboard.history.week.rows import ABSENT
from dashboard.policies.doctor.history import History
from dashboard.purge.journal.gate import Sent

_PURGES_PER_SEGMENT = 10  # what is advised: a purge frees a segment a tenth of its time late
_MINUTE = 60
_NICE = tuple(m * _MINUTE for m in (1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720))


@dataclass(frozen=True, slots=True)
class Pace:
    """`seen`: a partition's purges are no further apart than this on average.

    `advised` is the interval at which its application should purge; None: nothing is known of how
    fast its segments fill. `requests_per_hour` are DeleteRecords requests seen at least; one that
    other topics of the application share is divided among them.
    """

    seen: timedelta
    advised: timedelta | None
    requests_per_hour: float

    @property
    def saved_per_hour(self) -> float:
        """Requests an hour that the advised interval saves, at least."""
        if self.advised is None:
            return 0.0
        return max(0.0, self.requests_per_hour * (1 - self.seen / self.advised))


def paces(history: History, signs: Signs) -> dict[str, Pace]:
    """The pace of each topic that was purged between snapshots of the usual distance, by its name:
    thinned ones are further apart, and show fewer purges than there were.
    """
    hours = np.array(history.hours())
    close = np.flatnonzero(hours <= 2 * np.median(hours))
    span = float(hours[close].sum())
    purges = signs.purged[:, close]
    shares = _shares(history, purges, history.leader[:, close + 1])
    advised = _advised(history, signs)
    found = {}
    for number, (topic, place) in enumerate(history.topics.items()):
        most = int(purges[place].sum(axis=1).max(initial=0))
        if most:
            seen = timedelta(hours=span / most)
            found[topic] = Pace(seen, advised.get(topic), float(shares[number]) / span)
    return found


def _applications(history: History) -> list[str]:
    """Per topic whose it is; one without an owner stands for itself."""
    owners = history.owners.by_topic
    return [owners[t].group_id if t in owners else f"\0{t}" for t in history.topics]


def _shares(history: History, purges: Flags, leader: Ints) -> Floats:
    """Requests per topic: of each application, interval and leader one, shared by its topics."""
    topics = len(history.topics)
    row, interval = np.nonzero(purges)
    topic = _topic_of(history)[row]
    row, interval, topic = row[topic >= 0], interval[topic >= 0], topic[topic >= 0]
    _, application = np.unique(_applications(history), return_inverse=True)
    _, broker = np.unique(leader[row, interval], return_inverse=True)
    brokers = int(broker.max(initial=0)) + 1
    request = (application[topic] * purges.shape[1] + interval) * brokers + broker
    keys = np.unique(request * topics + topic)  # a request and a topic that it was for
    _, which, sharers = np.unique(keys // topics, return_inverse=True, return_counts=True)
    shares = np.bincount(keys % topics, weights=1 / sharers[which], minlength=topics)
    return np.asarray(shares, dtype=np.float64)


def _topic_of(history: History) -> Ints:
    """Per row its topic's number; -1 for topics that are gone."""
    found = np.full(len(history.partition), ABSENT, dtype=np.int64)
    for number, place in enumerate(history.topics.values()):
        found[place] = number
    return found


def _advised(history: History, signs: Signs) -> dict[str, timedelta]:
    """By topic what its application is advised: its busiest partition decides."""
    fastest: dict[str, float] = {}
    applications = _applications(history)
    written = _bytes_per_hour(history, signs)
    for application, (topic, place) in zip(applications, history.topics.items(), strict=True):
        busiest = float(written[place].max())
        fills = _seconds_to_fill(busiest, history.configs.get(topic, {}))
        if fills is not None:
            fastest[application] = min(fills, fastest.get(application, fills))
    return {
        topic: timedelta(seconds=_nice(fastest[application] / _PURGES_PER_SEGMENT))
        for application, topic in zip(applications, history.topics, strict=True)
        if application in fastest
    }


def _bytes_per_hour(history: History, signs: Signs) -> Floats:
    """What was written to each partition, over the intervals whose two ends are known."""
    end, hours = history.log_end, np.array(history.hours())
    known = (end[:, :-1] != ABSENT) & (end[:, 1:] >= end[:, :-1])
    records = np.where(known, end[:, 1:] - end[:, :-1], 0).sum(axis=1)
    spans = known @ hours
    return np.where(spans > 0, records * signs.record_bytes / np.where(spans > 0, spans, 1), 0.0)


def _seconds_to_fill(bytes_per_hour: float, config: Mapping[str, str | None]) -> float | None:
    """How long a segment takes to fill, or until `segment.ms` ends it; None: nothing tells."""
    size, age = limit(config.get("segment.bytes")), limit(config.get("segment.ms"))
    fills = [age / 1000] if age else []
    if size and bytes_per_hour > 0:
        fills.append(3600 * size / bytes_per_hour)
    return min(fills, default=None)


def _nice(seconds: float) -> int:
    """The longest of a few round intervals that is no longer; a minute at least."""
    return max((nice for nice in _NICE if nice <= seconds), default=_NICE[0])


# What moved between two snapshots of a partition: its log start, its commits, its segments.
#
# A snapshot sees at most one move of a log start since the one before, however often it was
# purged: every count of purges here is "at least".

Floats = npt.NDArray[np.float64]
_TOO_FEW = 0.1  # of the most records of an interval: sizes and offsets are not read at once
_NEVER = 1 << 62  # Streams of old wrote Long.MAX_VALUE where it writes -1 now


@dataclass(frozen=True, slots=True)
class Signs:
    """Per row and interval between two snapshots.

    `purged`: its log start rose; `committed`: its owner's commit did. `ours` of the former are
    explained by what our own runs sent. `freed`: whole segments that went (-1: not known);
    `record_bytes`: per row the size of a record, at most (0: not known). `beyond`: the log start
    stood above what the owner had committed even one snapshot later, and no run of ours asked for
    it.
    """

    purged: Flags
    committed: Flags
    ours: Flags
    freed: Ints
    record_bytes: Floats
    beyond: Flags


def read_signs(history: History, sent: Iterable[Sent], reads_take: timedelta) -> Signs:
    """All rows and intervals at once.

    Offsets are read a while after a snapshot's own time, at most `reads_take`: a purge of ours may
    show in it though it was sent later than that.
    """
    purged = _rose(history.log_start)
    asked = _asked(history, sent, reads_take)
    explained = history.log_start <= asked
    commit = history.committed[:, 1:]
    start = history.log_start[:, :-1]
    beyond = (commit != ABSENT) & (start > commit) & ~explained[:, :-1]
    record_bytes = _record_bytes(history)
    return Signs(
        purged,
        _rose(history.committed),
        purged & explained[:, 1:],
        _freed(history, record_bytes),
        record_bytes,
        beyond & (start > history.log_start[:, :1]),
    )


def limit(value: str | None) -> int | None:
    """A setting as a number; None: unlimited, or not known."""
    number = int(value) if value and value.lstrip("-").isdigit() else -1
    return None if number < 0 or number > _NEVER else number


def unlimited(config: Mapping[str, str | None]) -> bool | None:
    """Whether a topic's retention never deletes anything; None: its settings are not known."""
    if not {"retention.ms", "retention.bytes"} <= set(config):
        return None
    return all(limit(config[key]) is None for key in ("retention.ms", "retention.bytes"))


def _rose(grid: Ints) -> Flags:
    earlier, later = grid[:, :-1], grid[:, 1:]
    return np.asarray((earlier != ABSENT) & (later > earlier))


def _asked(history: History, sent: Iterable[Sent], reads_take: timedelta) -> Ints:
    """The highest target that runs of ours had sent by each snapshot; -1: none."""
    found = np.full(history.log_start.shape, ABSENT, dtype=np.int64)
    for one in sent:
        place = history.topics.get(one.topic)
        if place is None or one.partition >= place.stop - place.start:
            continue
        columns = [at for at, time in enumerate(history.times) if one.sent_at <= time + reads_take]
        if columns:
            row = found[place.start + one.partition, columns[0] :]
            np.maximum(row, one.target_offset, out=row)
    return found


def _record_bytes(history: History) -> Floats:
    """Bytes of a record: the most that an interval added per record.

    An interval in which segments went shows too little, never too much.
    """
    records, size = _added(history)
    enough = (records > 0) & (records >= _TOO_FEW * records.max(axis=1, initial=1)[:, None])
    rate = np.where(enough & (size > 0), size / np.maximum(records, 1), 0.0)
    return np.asarray(rate.max(axis=1, initial=0.0))


def _freed(history: History, record_bytes: Floats) -> Ints:
    """Whole segments that went: what was appended and does not lie there now.

    Where the size of a record is not known, only a log that got smaller tells.
    """
    records, size = _added(history)
    gone = np.maximum(record_bytes[:, None] * np.maximum(records, 0) - size, np.maximum(-size, 0))
    segments = np.round(gone / _segment_bytes(history)[:, None]).astype(np.int64)
    segments = np.where(size < 0, np.maximum(segments, 1), segments)
    untold = (records > 0) & (size >= 0) & (record_bytes[:, None] == 0)
    return np.where((records < 0) | untold, ABSENT, segments)


def _added(history: History) -> tuple[Ints, Ints]:
    """Records and bytes that an interval added to the leader's log; records -1: not known.

    Replicas need not have the same segments, so an interval with another leader tells nothing.
    """
    end, size, leader = history.log_end, history.leader_bytes, history.leader
    known = (end != ABSENT) & (size != ABSENT) & (leader != ABSENT)
    whole = known[:, 1:] & known[:, :-1] & (leader[:, 1:] == leader[:, :-1])
    whole &= end[:, 1:] >= end[:, :-1]
    records = np.where(whole, end[:, 1:] - end[:, :-1], ABSENT)
    return records, np.where(whole, size[:, 1:] - size[:, :-1], 0)


def _segment_bytes(history: History) -> Floats:
    """`segment.bytes` per row; endless where it is not known: then a fall alone is a segment."""
    found = np.full(len(history.partition), np.inf)
    for topic, place in history.topics.items():
        value = limit(history.configs.get(topic, {}).get("segment.bytes"))
        if value:
            found[place] = value
    return found
