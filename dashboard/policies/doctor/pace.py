"""How often repartition topics are purged, and how often it would do.

A request of a Streams application carries all its partitions of one leader, so requests, and the
interval to advise, are counted by application (Kafka's `TaskManager.maybePurgeCommittedRecords`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from dashboard.domain.columns import Flags, Ints
from dashboard.policies.doctor.history import History
from dashboard.policies.doctor.signs import Floats, Signs, limit
from dashboard.policies.simulate.past_rows import ABSENT

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
