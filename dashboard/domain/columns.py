"""What one collect reads, as columns: an array per field, for clusters of a million partitions.

The nouns are those of `dashboard.domain.model`. In columns of numbers -1 is unknown; an error is
Kafka's name or None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard.domain.model import LogDir, TopicState

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Names = npt.NDArray[np.object_]  # str or None
_NONE = np.array(None, object)


@dataclass(frozen=True, slots=True)
class Placement:
    """Which partition lives where: a row per partition, and a row per replica of it.

    Partitions rise by topic and partition, `topic` counts in `names`, which are sorted; replicas
    rise by broker, then by partition, `replica_of` counts partitions.
    """

    names: tuple[str, ...]
    topic: Ints
    partition: Ints
    leader: Ints
    epoch: Ints
    replica_of: Ints
    replica_broker: Ints
    replica_in_sync: Flags

    def at_broker(self, broker_id: int) -> slice:
        """The replica rows of one broker."""
        first = np.searchsorted(self.replica_broker, broker_id)
        return slice(int(first), int(np.searchsorted(self.replica_broker, broker_id, "right")))

    def brokers(self) -> list[int]:
        """Ids of the brokers that have a replica, rising."""
        found: list[int] = np.unique(self.replica_broker).tolist()
        return found


@dataclass(frozen=True, slots=True)
class LeaderOffsets:
    """A row per partition of a placement: the leader's offsets, none of them where one failed."""

    log_start: Ints
    last_stable: Ints
    high_watermark: Ints
    errors: Names


@dataclass(frozen=True, slots=True)
class OwnOffsets:
    """A row per replica of a placement: its own log start and end, read at `observed_us` (UTC)."""

    log_start: Ints
    log_end: Ints
    observed_us: Ints
    errors: Names


@dataclass(frozen=True, slots=True)
class BrokerSizes:
    """A row per replica that one broker reports; `topic` and `log_dir` count in the two tuples."""

    names: tuple[str, ...]
    log_dirs: tuple[str, ...]
    topic: Ints
    log_dir: Ints
    partition: Ints
    size_bytes: Ints
    is_future: Flags


@dataclass(frozen=True, slots=True)
class Sizes:
    """What DescribeLogDirs gave: broker id -> its replicas, or the error that hid them."""

    log_dirs: tuple[LogDir, ...]
    brokers: Mapping[int, BrokerSizes]
    errors: Mapping[int, str]


def place(topics: Mapping[str, TopicState]) -> Placement:
    """The placement that the metadata tells."""
    names = tuple(sorted(topics))
    states = [p for name in names for p in topics[name].partitions]
    counts = [len(topics[name].partitions) for name in names]
    width = [len(s.replicas) for s in states]
    of = np.repeat(np.arange(len(states)), width)
    broker = ints(chain.from_iterable(s.replicas for s in states))
    in_sync = np.fromiter(
        chain.from_iterable(
            [True] * len(s.replicas) if s.isr is s.replicas else [b in s.isr for b in s.replicas]
            for s in states
        ),
        bool,
    )
    order = np.argsort(broker, kind="stable")
    return Placement(
        names=names,
        topic=np.repeat(np.arange(len(names)), counts),
        partition=ints(s.partition for s in states),
        leader=ints(-1 if s.leader_id is None else s.leader_id for s in states),
        epoch=ints(-1 if s.leader_epoch is None else s.leader_epoch for s in states),
        replica_of=of[order],
        replica_broker=broker[order],
        replica_in_sync=in_sync[order],
    )


def keys(topic: Ints, partition: Ints) -> Ints:
    """One number per partition that sorts by topic, then partition."""
    return np.asarray((topic << 32) | partition)


def positions(wanted: Ints, among: Ints) -> tuple[Ints, Flags]:
    """Where each of `wanted` stands in `among`, which rises, and whether it is there at all."""
    at = np.searchsorted(among, wanted)
    at[at == len(among)] = 0
    return at, (among[at] == wanted if len(among) else np.zeros(len(wanted), bool))


def no_names(count: int) -> Names:
    """A column of None."""
    return np.full(count, None, object)


def failed(errors: Names) -> Flags:
    """Where an error stands."""
    return np.asarray(np.not_equal(errors, _NONE), bool)


def ints(values: Any) -> Ints:
    """A column of numbers from any iterable."""
    return np.fromiter(values, np.int64)
