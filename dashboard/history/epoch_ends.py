"""Asks leaders where leader epochs end by now: what was known of one above that is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from dashboard.domain.model import EpochEnd, TopicPartition

# In a snapshot's manifest: the one whose log ends were held against the ends of leader epochs; null
# where there was none, or nothing could be asked. Snapshots of earlier versions have no such key.
ASKED_OF = "ends_asked_of"


class Leaders(Protocol):
    """`dashboard.cluster.live.LiveCluster`, as far as it is asked here."""

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEnd]: ...


@dataclass(frozen=True, slots=True)
class CutEpoch:
    """A leader epoch that ends below an offset that was known of it; None: nobody could tell.

    `of_this_log` False: the leader knows no such epoch, or its log has nothing of it, nor of any
    that is newer than `floor_epoch`, with which it answered (None: with none).
    """

    topic: str
    partition: int
    leader_epoch: int
    known_offset: int
    end_offset: int | None
    of_this_log: bool = True
    floor_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """`ends`: of each epoch that ends below what was known of it, its end in the log as it is now.

    Of those of `foreign` it has nothing: they end at 0. Each is there with the older epoch that was
    answered; of those between the two the log has nothing either. `errors`: partitions where that
    cannot be told, and why.
    """

    ends: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    foreign: dict[tuple[TopicPartition, int], int | None] = field(default_factory=dict)
    errors: dict[TopicPartition, str] = field(default_factory=dict)


def read_lost(
    live: Leaders,
    known: Mapping[TopicPartition, Mapping[int, int]],
    lowest: Mapping[TopicPartition, Mapping[int, int]] = MappingProxyType({}),
) -> Lost:
    """Which of these leader epochs lost records. `known`: per epoch the highest offset seen of it,
    `lowest` the lowest, where more than one was.

    A request asks for one epoch of a partition, so there are as many rounds as epochs of one at
    most. Raises ClusterError when nothing could be read.
    """
    lost = Lost()
    pending = {key: sorted(epochs.items()) for key, epochs in known.items() if epochs}
    while pending:
        found = live.epoch_ends({key: epochs[0][0] for key, epochs in pending.items()})
        asked, pending = pending, {}
        for key, ((epoch, highest), *rest) in asked.items():
            answer = found.get(key)
            if answer is None or answer.error:
                lost.errors[key] = (answer.error if answer else None) or "NOT_ANSWERED"
                continue
            least = lowest.get(key, {}).get(epoch, highest)
            _judge(lost, key, answer, epoch, (least, highest))
            if rest:
                pending[key] = rest
    return lost


def is_foreign(answer: EpochEnd, epoch: int, offset: int) -> bool:
    """Whether the leader's log has nothing of `epoch`, in which `offset` was known.

    Asked for an epoch that its log lacks, a leader answers an older one and where the next begins
    (LeaderEpochFileCache.endOffsetFor). An epoch that was led without a record is in no log
    either: it began and ended at that very offset, and lost nothing.
    """
    if answer.end_offset is None or answer.leader_epoch is None:
        return True
    return answer.leader_epoch < epoch and answer.end_offset != offset


def _judge(
    lost: Lost, key: TopicPartition, answer: EpochEnd, epoch: int, offsets: tuple[int, int]
) -> None:
    highest = offsets[1]
    if any(is_foreign(answer, epoch, offset) for offset in offsets):
        lost.ends.setdefault(key, {})[epoch] = 0
        floor, end = answer.leader_epoch, answer.end_offset
        if floor is None or end is None or floor >= epoch:
            lost.foreign[key, epoch] = None
            return
        lost.foreign[key, epoch] = floor
        if end < highest:
            lost.ends[key].setdefault(floor, end)  # speaks for older ones, as `epoch` does not
    elif answer.end_offset is not None and answer.end_offset < highest:
        lost.ends.setdefault(key, {})[epoch] = answer.end_offset
