"""Asks leaders where leader epochs end by now: what was known of one above that is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dashboard.model import EpochEnd, TopicPartition


class Leaders(Protocol):
    """`dashboard.cluster.live.LiveCluster`, as far as it is asked here."""

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEnd]: ...


@dataclass(frozen=True, slots=True)
class CutEpoch:
    """A leader epoch that ends below an offset that was known of it; None: nobody could tell.

    `of_this_log` False: the leader knows no such epoch.
    """

    topic: str
    partition: int
    leader_epoch: int
    known_offset: int
    end_offset: int | None
    of_this_log: bool = True


@dataclass(frozen=True, slots=True)
class Lost:
    """`ends`: of each epoch that ends below what was known of it, its end in the log as it is now.

    Those of `foreign` no leader of it knows, and it has nothing of them: they end at 0. `errors`:
    partitions where that cannot be told, and why.
    """

    ends: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    foreign: set[tuple[TopicPartition, int]] = field(default_factory=set)
    errors: dict[TopicPartition, str] = field(default_factory=dict)


def read_lost(live: Leaders, known: Mapping[TopicPartition, Mapping[int, int]]) -> Lost:
    """Which of these leader epochs lost records. `known`: per epoch the highest offset seen of it.

    A request asks for one epoch of a partition, so there are as many rounds as epochs of one at
    most; an older epoch that reaches far enough answers for those after it. Raises ClusterError
    when nothing could be read.
    """
    lost = Lost()
    pending = {key: sorted(epochs.items()) for key, epochs in known.items() if epochs}
    while pending:
        found = live.epoch_ends({key: epochs[0][0] for key, epochs in pending.items()})
        pending = {
            key: rest
            for key, epochs in pending.items()
            if (rest := _judged(lost, key, epochs, found.get(key)))
        }
    return lost


def _judged(
    lost: Lost, key: TopicPartition, epochs: list[tuple[int, int]], answer: EpochEnd | None
) -> list[tuple[int, int]]:
    """What of a partition is still to be asked."""
    if answer is None or answer.error:
        lost.errors[key] = (answer.error if answer else None) or "NOT_ANSWERED"
        return []
    (epoch, highest), *rest = epochs
    end = answer.end_offset or 0
    if end < highest:
        lost.ends.setdefault(key, {})[epoch] = end
        if answer.end_offset is None:
            lost.foreign.add((key, epoch))
    # Epochs only rise along a log, so the end of a later one is not below this.
    return [(later, offset) for later, offset in rest if offset > end]
