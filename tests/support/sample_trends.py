"""How fast the sample cluster grows: an hour of snapshots, a topic that is too new to tell."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.support.sample_partitions import Rows, SamplePartition, log_dir

NEW = "tiny-events"  # has been there for two snapshots
IN, OUT = 96, 160  # a size's share that comes and goes in an hour: 1/96, 1/160
DISK = 40  # the share of its free bytes that a disk takes in an hour: 1/40
UNSURE = 160  # and by how much of them that may be off


def trends(parts: list[SamplePartition], answered: list[int], taken_at: datetime) -> Rows:
    """The running pane of each replica and log dir; the hour before it is no pane of its own."""
    return [
        {**part.key, "broker_id": broker, "log_dir": "/d1"} | _pane(part.size_bytes, taken_at)
        | {"bytes_in": part.size_bytes // IN, "bytes_out": part.size_bytes // OUT}
        for part in parts for broker in answered
    ] + [
        {"broker_id": broker, "log_dir": "/d1"} | _pane(_used(broker, parts), taken_at)
        for broker in answered
    ]  # fmt: skip


def growth(parts: list[SamplePartition], answered: list[int]) -> Rows:
    """Rates per topic and log dir; null where there is not enough history."""
    sizes: dict[str, int] = {}
    for part in parts:
        sizes[part.topic.topic] = sizes.get(part.topic.topic, 0) + part.size_bytes
    rows: Rows = [
        {"topic": topic, **_rates(size * len(answered))}
        if topic != NEW
        else {"topic": topic, "samples": 2, "window_seconds": 60, "replicas": 0}
        for topic, size in sizes.items()
    ]
    for broker in answered:
        free = log_dir(broker, True, parts)["usable_bytes"]
        disk = {"broker_id": broker, "log_dir": "/d1", **_rates(sum(sizes.values()))}
        # Broker 2 does not fill up; the others do, in 40 hours.
        filling = broker != 2
        rate = free // DISK if filling else 0
        disk |= {"used_bytes_per_hour": rate, "used_bytes_per_hour_low": rate - free // UNSURE,
                 "used_bytes_per_hour_high": rate + free // UNSURE}  # fmt: skip
        for end, of in (("", ""), ("_low", "_high"), ("_high", "_low")):
            slope = disk[f"used_bytes_per_hour{of}"]
            disk[f"days_to_full{end}"] = free / slope / 24 if slope > 0 else None
        rows += [disk, *_there(broker, sizes)]
    return rows


def _there(broker: int, sizes: dict[str, int]) -> Rows:
    """A row per topic of one log dir."""
    where = {"broker_id": broker, "log_dir": "/d1"}
    return [
        {"topic": topic, **where, **_rates(size), "replicas": 1}
        for topic, size in sizes.items()
        if topic != NEW
    ]


def _rates(size: int) -> dict[str, Any]:
    came, left = size // IN, size // OUT
    return {"bytes_in_per_hour": came, "bytes_out_per_hour": left, "growth_per_hour": came - left,
            "samples": 60, "window_seconds": 3600, "replicas": 3}  # fmt: skip


def _pane(size: int, taken_at: datetime) -> dict[str, Any]:
    first = taken_at - timedelta(hours=1)
    grown = {"size_first": size - size // IN, "size_last": size, "size_n": 60}
    times = dict.fromkeys(("size_first_at", "size_since", "size_from"), first)
    return {"pane": "running", "size_last_at": taken_at} | grown | times


def _used(broker: int, parts: list[SamplePartition]) -> int:
    found = log_dir(broker, True, parts)
    return int(found["total_bytes"] - found["usable_bytes"])
