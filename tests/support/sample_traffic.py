"""What goes in and out of the sample cluster's brokers; one of them was not scraped once."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.support.sample_partitions import Rows, SamplePartition

IN, OUT = 96, 48  # a size's share that comes in, and that consumers fetch, in an hour
MISSED = 2


def traffic(parts: list[SamplePartition], answered: list[int], taken_at: datetime) -> Rows:
    """A row per broker, and one per topic that it leads a partition of."""
    sizes: dict[tuple[str | None, int], int] = {}
    for part in parts:
        for topic in (part.topic.topic, None):
            sizes[topic, part.leader] = sizes.get((topic, part.leader), 0) + part.size_bytes
    return [
        {"topic": topic, "broker_id": broker, "measured_at": taken_at, "hour_samples": 60,
         "hour_seconds": 3540, "day_samples": 900, "day_seconds": 64_800, "resets": 0,
         "missed": int(broker == MISSED)}
        | {f"bytes_{way}_per_{window}": size * hours // share
           for way, share in (("in", IN), ("out", OUT))
           for window, hours in (("hour", 1), ("day", 24))}
        | ({} if topic else {"fetcher_lag": 0} | _purges(broker))
        for (topic, broker), size in sizes.items() if broker in answered
    ]  # fmt: skip


def _purges(broker: int) -> dict[str, float]:
    """DeleteRecords as a broker tells it; one that had none yet tells no times."""
    if broker == MISSED:
        return {"delete_requests_waiting": 0}
    return {"delete_requests_waiting": broker, "delete_requests_per_hour": 10 * broker,
            "delete_ms_mean": 3.6 * broker, "delete_ms_p99": 498.0}  # fmt: skip


def counters(parts: list[SamplePartition], answered: list[int], taken_at: datetime) -> Rows:
    """The running panes behind it; those before are no panes of their own."""
    return [
        {"topic": row["topic"], "broker_id": row["broker_id"], "counter": "bytes_out",
         "value": 3.0 * row["bytes_out_per_day"], "told_at": taken_at, "missing": 0,
         "hour_before_n": 0, "day_before_n": 0}
        | _pane("hour", row["bytes_out_per_hour"], 60, taken_at)
        | _pane("day", row["bytes_out_per_day"], 900, taken_at)
        for row in traffic(parts, answered, taken_at)
    ]  # fmt: skip


def _pane(name: str, amount: int, samples: int, taken_at: datetime) -> dict[str, object]:
    began = taken_at - timedelta(minutes=samples)
    return {f"{name}_from": began, f"{name}_last_at": taken_at, f"{name}_since": began,
            f"{name}_n": samples, f"{name}_amount": amount, f"{name}_resets": 0,
            f"{name}_missed": 0}  # fmt: skip


TAPPED = "metrics-raw"


def unseen_readers(parts: list[SamplePartition], taken_at: datetime) -> Rows:
    """What left each topic in a day, and how much of it groups explain: of one of them little."""
    sizes: dict[str, list[int]] = {}
    for part in parts:
        sizes.setdefault(part.topic.topic, []).append(part.size_bytes)
    return [
        {"topic": topic, "measured": "measured", "suspected": topic == TAPPED,
         "bytes_out_per_hour": out // 24, "explained_bytes_per_hour": explained // 24,
         "bytes_out": out, "explained_bytes": explained, "window_ms": 86_400_000,
         "partitions": len(found), "measured_at": taken_at, "whole": True,
         "counted_ms": 86_400_000, "unbroken_ms": 86_400_000, "left_bytes": out - explained}
        for topic, found in sizes.items()
        for out in (24 * sum(found) // OUT,)
        for explained in (out // 12 if topic == TAPPED else out,)
    ]  # fmt: skip
