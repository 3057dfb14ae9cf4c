"""Where the records of a partition with remote storage lie, and what a purge takes of each tier.

Whether a purge may be is the guard `remote-storage`'s; this says what it would take, guarded or
not. Kafka tells offsets of both tiers (KIP-405, KIP-1005), bytes of brokers' disks alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dashboard.core.canonical import Count, Text
from dashboard.core.errors import ClusterError
from dashboard.core.sums import whole_sum
from dashboard.domain.model import LogDirsAnswer, TieredOffsets, TopicPartition, TopicState
from dashboard.domain.system_topics import REMOTE_STORAGE
from dashboard.purge.plan.cluster_seam import Cluster


@dataclass(frozen=True, slots=True)
class Tiers:
    """Brokers' disks have the log from `local_start_offset` on, the remote storage up to
    `remote_end_offset`; between the two it lies in both.

    `local_bytes` lie on the disks of all replicas, `leader_bytes` on the leader's. None: not known,
    for the offsets with `error`.
    """

    local_start_offset: Count | None
    remote_end_offset: Count | None
    local_bytes: Count | None
    leader_bytes: Count | None
    error: Text | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """What a purge takes of each tier, at most: whole segments go, once brokers look for them.

    Records that lie in both tiers count in both. `local_bytes` are those of all replicas, by their
    share of the local records; `remote_bytes` as many as local records of that number have.
    None: not known.
    """

    remote_records: int | None
    local_records: int
    remote_bytes: int | None
    local_bytes: int | None


def read_tiers(
    live: Cluster,
    states: Mapping[str, TopicState],
    configs: Mapping[str, Mapping[str, str | None]],
    log_dirs: LogDirsAnswer,
) -> dict[TopicPartition, Tiers]:
    """Of the partitions of topics with remote storage; nothing is asked where there is none."""
    tiered = {t: s for t, s in states.items() if is_remote(configs.get(t, {}))}
    keys = [TopicPartition(t, p.partition) for t, s in tiered.items() for p in s.partitions]
    if not keys:
        return {}
    try:
        offsets = live.tiered_offsets(keys, tiered)
    except ClusterError as error:
        offsets = {key: TieredOffsets(*key, None, None, error.code) for key in keys}
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for r in log_dirs.replicas:
        if not r.is_future:
            sizes.setdefault(TopicPartition(r.topic, r.partition), {})[r.broker_id] = r.size_bytes
    found = {}
    for topic, state in tiered.items():
        for p in state.partitions:
            key = TopicPartition(topic, p.partition)
            of, seen = sizes.get(key, {}), offsets[key]
            whole = sum(of.values()) if set(p.replicas) <= of.keys() else None
            leader = of.get(p.leader_id) if p.leader_id is not None else None
            found[key] = Tiers(
                seen.local_start_offset, seen.remote_end_offset, whole, leader, seen.error
            )
    return found


def is_remote(config: Mapping[str, str | None]) -> bool:
    """Whether a topic's settings say that it has remote storage."""
    return any(config.get(key) == "true" for key in REMOTE_STORAGE)


def taken(tiers: Tiers, start: int | None, target: int | None, end: int | None) -> Taken | None:
    """What a purge from log start to target takes; `end` is the high watermark. None: not known."""
    first = tiers.local_start_offset
    if start is None or target is None or end is None or first is None:
        return None
    target = max(start, target)
    last = tiers.remote_end_offset
    remote = None if last is None else max(0, min(target, last) - start)
    local = max(0, target - max(start, first))
    there = max(0, end - max(start, first))
    return Taken(
        remote,
        local,
        _share(tiers.leader_bytes, remote, there),
        0 if not local else _share(tiers.local_bytes, local, there),
    )


def _share(size: int | None, records: int | None, of: int) -> int | None:
    """So many records' bytes, where `of` them have `size`."""
    if records == 0:
        return 0
    return None if size is None or records is None or not of else size * records // of


def summed(found: Iterable[Taken]) -> Taken:
    """Of several partitions; unknown is what one of them does not know."""
    rows = list(found)
    return Taken(
        whole_sum(row.remote_records for row in rows),
        sum(row.local_records for row in rows),
        whole_sum(row.remote_bytes for row in rows),
        whole_sum(row.local_bytes for row in rows),
    )
