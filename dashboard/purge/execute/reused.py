"""Whether a plan's offsets still mean the records that it was made for (KIP-101, KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dashboard.domain.model import EpochEnd, TopicPartition
from dashboard.history.epoch_ends import is_foreign
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.plan.plan import PlannedPartition


@dataclass(frozen=True, slots=True)
class Reused:
    """Partitions whose records may be others now, and why; and those that could not be asked:
    Kafka's error and the reason in words.
    """

    refused: dict[TopicPartition, str] = field(default_factory=dict)
    untold: dict[TopicPartition, tuple[str, str]] = field(default_factory=dict)


def offsets_reused(
    live: Cluster,
    planned: Mapping[TopicPartition, PlannedPartition],
    seen: Mapping[TopicPartition, PartitionFacts],
    *,
    whole: bool,
) -> Reused:
    """What became of the plan's offsets where another epoch is led by now.

    The log must be the same up to the target; `whole`: up to the high watermark that the plan saw,
    because the bytes that were counted among those that stay lie below it. Raises ClusterError.
    """
    found = Reused()
    epochs: dict[TopicPartition, int] = {}
    for key, now in seen.items():
        if (epoch := planned[key].leader_epoch) is not None:
            epochs |= {key: epoch} if epoch != now.leader_epoch else {}
        elif now.leader_epoch is not None:  # a plan of a broker that tells epochs has one
            found.refused[key] = (
                "the plan does not say in which leader epoch its offsets were read; plan again"
            )
    ends = live.epoch_ends(epochs) if epochs else {}
    for key, epoch in epochs.items():
        end = ends.get(key)
        if end is None or end.error:
            name = (end.error if end else None) or "EPOCH_NOT_READ"
            found.untold[key] = (name, f"the end of leader epoch {epoch} is not known")
        elif why := _why(end, epoch, planned[key], whole=whole):
            found.refused[key] = f"{why}; plan again"
    return found


def _why(end: EpochEnd, epoch: int, plan: PlannedPartition, *, whole: bool) -> str | None:
    target, high_watermark = plan.target_offset, plan.high_watermark
    ended = f"leader epoch {epoch} of the plan ended at {end.end_offset}, below"
    if end.end_offset is None or target is None or end.end_offset < target:
        return f"{ended} the target {target}: those offsets may mean other records now"
    if is_foreign(end, epoch, high_watermark or 0):
        return (
            f"the log has nothing of leader epoch {epoch} of the plan: before {end.end_offset} it "
            f"is of epoch {end.leader_epoch}, whose offsets may mean other records"
        )
    if whole and (high_watermark is None or end.end_offset < high_watermark):
        return f"{ended} {high_watermark}: what it lost counted among the bytes that stay"
    return None
