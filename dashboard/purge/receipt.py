"""The receipt of a run: bytes predicted against bytes freed, per replica, and who freed the rest.

Sizes come from DescribeLogDirs: before the first request, then sampled until final. What
producers wrote in between is added by the growth of the log end, and what retention took above
the target is told apart by the log start. Pure, but for `measure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from dashboard.clock import format_time, parse_time
from dashboard.model import ConfigEntry, TopicPartition
from dashboard.purge import wait_outcomes
from dashboard.purge.cluster_seam import Cluster
from dashboard.purge.facts import PartitionFacts
from dashboard.purge.journal_rows import PartitionRow
from dashboard.purge.plan import Plan
from dashboard.purge.receipt_gap import cause

# Every live replica is past the target, or another leader brought records back: it stays so.
_AT_REST = ("done", "reverted")
_DEFAULTS_MS = {
    "log.retention.check.interval.ms": 300_000,
    "log.flush.start.offset.checkpoint.interval.ms": 60_000,
    "file.delete.delay.ms": 60_000,
}


def measure(live: Cluster, keys: Iterable[TopicPartition], now: datetime) -> dict[str, Any]:
    """Size, log start and log end of every replica of `keys`; of future ones only where they are.

    `future` lists `[topic, partition, broker_id]` of replicas that move to another log dir.
    """
    wanted = set(keys)
    answer = live.log_dirs(wanted)
    offsets = {
        (r.broker_id, r.topic, r.partition): r for r in live.replica_offsets(sorted(wanted), None)
    }
    replicas = []
    for r in sorted(answer.replicas, key=lambda r: (r.topic, r.partition, r.broker_id)):
        if r.is_future or TopicPartition(r.topic, r.partition) not in wanted:
            continue
        seen = offsets.get((r.broker_id, r.topic, r.partition))
        replicas.append(
            {
                "topic": r.topic,
                "partition": r.partition,
                "broker_id": r.broker_id,
                "size_bytes": r.size_bytes,
                "log_start_offset": seen.log_start_offset if seen else None,
                "log_end_offset": seen.log_end_offset if seen else None,
            }
        )
    future = sorted(
        [r.topic, r.partition, r.broker_id]
        for r in answer.replicas
        if r.is_future and TopicPartition(r.topic, r.partition) in wanted
    )
    return {"taken_at": format_time(now), "replicas": replicas, "future": future}


def unread(
    sample: Mapping[str, Any], partitions: Mapping[TopicPartition, PartitionFacts]
) -> set[TopicPartition] | None:
    """Partitions with a replica whose offsets a sample of `measure` lacks.

    None where sizes cannot be read at all: then the sample tells nothing of replicas either.
    """
    if not sample["replicas"]:
        return None
    known: dict[TopicPartition, set[int]] = {}
    for r in sample["replicas"]:
        if r["log_start_offset"] is not None:
            known.setdefault(TopicPartition(r["topic"], r["partition"]), set()).add(r["broker_id"])
    return {key for key, seen in partitions.items() if set(seen.replicas) - known.get(key, set())}


def settle_time(entries: Iterable[ConfigEntry]) -> timedelta:
    """How long after the last replica arrived its bytes and checkpoint are certain.

    Retention check interval + file delete delay + log start checkpoint interval, the largest
    of brokers and topics; Kafka's defaults where they cannot be read.
    """
    found: dict[str, list[int]] = {}
    for entry in entries:
        if entry.key in _DEFAULTS_MS and entry.value is not None:
            found.setdefault(entry.key, []).append(int(entry.value))
    total = sum(max(found.get(key, [default])) for key, default in _DEFAULTS_MS.items())
    return timedelta(milliseconds=total)


def start(
    baseline: Mapping[str, Any] | None, rows: Sequence[PartitionRow], plan: Plan
) -> dict[str, Any]:
    """The receipt before any sample; partitions that were there already free nothing."""
    sent = {row.key for row in rows if row.was_sent and row.state != "not_done"}
    estimates = {p.key: p.estimate for p in plan.partitions if p.key in sent}
    replicas = []
    for replica in (baseline or {}).get("replicas", []):
        key = TopicPartition(replica["topic"], replica["partition"])
        if key in sent:
            estimate = estimates.get(key)
            predicted = estimate.replicas.get(replica["broker_id"]) if estimate else None
            replicas.append(
                {**replica, "before_bytes": replica["size_bytes"],
                 "start_before": replica["log_start_offset"],
                 "end_before": replica["log_end_offset"], "predicted_bytes": predicted,
                 "dropped_bytes": 0, "freed_bytes": 0, "retention_bytes": 0, "produced_bytes": 0}
            )  # fmt: skip
    sizes = [e.bytes_at_once if e else None for e in estimates.values()]
    known = [size for size in sizes if size is not None]
    measured = bool(replicas) or not sent
    return {
        "predicted_bytes": sum(known) if known or not sent else None,
        "methods": sorted({e.method for e in estimates.values() if e}),
        "unmeasured_partitions": len(sizes) - len(known),
        "freed_bytes": 0 if measured else None,
        "retention_bytes": 0 if measured else None,
        "produced_bytes": 0 if measured else None,
        "final": not sent,
        "arrived_at": None,
        "rested_at": None,
        "measured_at": None,
        "gap": None,
        "waits": wait_outcomes.requests(rows),
        "replicas": replicas,
    }


def advance(
    receipt: Mapping[str, Any],
    sample: Mapping[str, Any],
    rows: Sequence[PartitionRow],
    settle: timedelta,
    now: datetime,
    *,
    last: bool = False,
) -> dict[str, Any]:
    """The receipt after one more sample of `measure`; final once all assigned replicas rest.

    At the `last` look nobody waits any longer for replicas on brokers that are down, nor for
    partitions whose records came back: it is final for those that rest, and the gap names the rest.
    """
    targets = {row.key: row.target_offset for row in rows}
    newest = {(r["topic"], r["partition"], r["broker_id"]): r for r in sample["replicas"]}
    replicas = [
        _replica(
            old,
            newest.get((old["topic"], old["partition"], old["broker_id"])),
            targets[TopicPartition(old["topic"], old["partition"])],
        )
        for old in receipt["replicas"]
    ]
    sent = [row for row in rows if row.was_sent and row.state != "not_done"]
    arrived, rested = all(map(_all_arrived, sent)), all(row.state in _AT_REST for row in sent)
    arrived_at = (receipt["arrived_at"] or format_time(now)) if arrived else None
    rested_at = (receipt.get("rested_at") or format_time(now)) if rested else None
    since = arrived_at or (rested_at if last else None)
    final = since is not None and now >= parse_time(since) + settle
    totals = {
        name: sum(r[name] for r in replicas) if replicas else receipt[name]
        for name in ("freed_bytes", "retention_bytes", "produced_bytes")
    }
    body = {
        **receipt,
        **totals,
        "replicas": replicas,
        "arrived_at": arrived_at,
        "rested_at": rested_at,
        "measured_at": sample["taken_at"],
        "final": final,
    }
    return {**body, "gap": cause(body, rows)}


def _replica(old: Mapping[str, Any], new: Mapping[str, Any] | None, target: int) -> dict[str, Any]:
    if new is None:  # its broker gave no answer: what it holds is not known now
        return dict(old)
    grown = _grown_bytes(old, new)
    drop = old["size_bytes"] + grown - new["size_bytes"] if _fell(old, new) else 0
    dropped = old["dropped_bytes"] + max(0, drop)
    retention = round(dropped * _retention_share(old["start_before"], new, target))
    return {
        **old,
        "size_bytes": new["size_bytes"],
        "log_start_offset": new["log_start_offset"],
        "log_end_offset": new["log_end_offset"],
        "dropped_bytes": dropped,
        "retention_bytes": retention,
        "freed_bytes": dropped - retention,
        "produced_bytes": old["produced_bytes"] + grown,
    }


def _fell(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return bool(new["size_bytes"] < old["size_bytes"])


def _grown_bytes(old: Mapping[str, Any], new: Mapping[str, Any]) -> int:
    """Bytes produced between two samples: exact while nothing was dropped, else by offsets.

    A record counts as those that were written since the baseline, else as those that the replica
    held then: the log start of a later sample has moved, but its segments may still be there.
    """
    if not _fell(old, new):
        return int(new["size_bytes"] - old["size_bytes"])
    first, then, before = old["start_before"], old.get("end_before"), old["log_end_offset"]
    if None in (first, then, before, new["log_end_offset"]):
        return 0
    written = max(0, new["log_end_offset"] - before)
    if before > then and old["produced_bytes"]:
        return int(written * old["produced_bytes"] / (before - then))
    return int(written * old["before_bytes"] / (then - first)) if then > first else 0


def _retention_share(start_before: int | None, new: Mapping[str, Any], target: int) -> float:
    start = new["log_start_offset"]
    if start is None or start_before is None or start <= target or start <= start_before:
        return 0.0
    return float(start - max(target, start_before)) / float(start - start_before)


def _all_arrived(row: PartitionRow) -> bool:
    return row.state == "done" and all(f.alive and f.arrived for f in row.followers)
