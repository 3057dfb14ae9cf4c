"""Topics of the sample cluster that nobody has written to for a while, and one that is too new."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta

from dashboard.safety.guard_texts import guard
from dashboard.topics.idle import IdleTopic, WantedBy
from tests.support.sample_partitions import Rows, SamplePartition

DAYS = 7
# Quiet for so long, the kind, groups with an offset, groups with members.
_QUIET: dict[str, tuple[timedelta, str, int, list[str]]] = {
    "reports-old": (timedelta(days=41), "ordinary", 1, []),
    "audit-log": (timedelta(days=12), "ordinary", 0, []),
    "metrics-raw": (timedelta(days=9), "ordinary", 0, ["metrics-tail"]),
    "tiny-events": (timedelta(days=8), "ordinary", 1, []),
    "tx-ledger": (timedelta(minutes=2), "ordinary", 1, []),
    "counts-app-store-repartition": (timedelta(days=30), "streams", 1, []),
}


def idle_topics(
    parts: list[SamplePartition], answered: list[int], taken_at: datetime, missing: int | None
) -> Rows:
    rows = [
        _row(topic, [p for p in parts if p.topic.topic == topic], answered, taken_at, missing)
        for topic in _QUIET
        if any(p.topic.topic == topic for p in parts)
    ]
    return [asdict(row.judged(DAYS)) for row in rows]


def _row(
    topic: str,
    own: list[SamplePartition],
    answered: list[int],
    taken_at: datetime,
    missing: int | None,
) -> IdleTopic:
    quiet, kind, groups, reading = _QUIET[topic]
    unread = sum(p.leader == missing for p in own)
    return IdleTopic(
        taken_at=taken_at,
        topic=topic, kind=kind, tool="Kafka Streams" if kind == "streams" else None,
        owner=own[0].topic.owner, partitions=len(own), unread_partitions=unread,
        quiet_since=taken_at - quiet, known_since=taken_at - quiet,
        last_moved_at=None, groups=groups, reading_groups=reading, share_groups=[],
        last_commit_at=taken_at - quiet if groups and quiet > timedelta(days=1) else None,
        bytes_out_per_hour=None,
        records=sum(p.high_watermark - p.log_start for p in own),
        size_bytes=sum(p.size_bytes for p in own) * len(answered),
        evidence=["commits"] if unread else ["offsets", "commits"], readers_unknown=None,
        retention_ms=30 * 86_400_000, replay_window_ms=0, guards=_guards(own),
    )  # fmt: skip


def _guards(own: list[SamplePartition]) -> list[WantedBy]:
    """As `analytics.readers.topics` finds them."""
    topic = own[0].topic
    facts = {"topic": topic.topic, "who": "No group", "group_id": "metrics-tail", "brokers": "3"}
    names = [*topic.guards, *([] if topic.owner else ["readers-undeclared"])]
    found = [WantedBy(name, None, len(own), None, guard(name, **facts).reason) for name in names]
    for group in topic.groups:
        records = sum(p.high_watermark - p.committed[group] for p in own)
        if records:
            found.append(WantedBy("unread-by-group", group, len(own), records, None))
    return found


def last_writes(parts: list[SamplePartition], taken_at: datetime) -> Rows:
    """Partitions of other topics were written to since the snapshot before."""
    return [
        {**p.key, "topic_id": f"{p.topic_no:022d}", "log_end_offset": p.high_watermark,
         "moved_at": None if p.topic.topic in _QUIET else taken_at, "seen_at": taken_at,
         "known_since": taken_at - _QUIET.get(p.topic.topic, (timedelta(days=50),))[0]}
        for p in parts
    ]  # fmt: skip
