"""DeleteRecords requests as their brokers count them: how many wait, and how long they take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.words import duration, plural
from dashboard.domain.metric_names import PURGATORY_SIZE, REQUEST_TIME
from dashboard.domain.model import BrokerMetric

_MEAN, _P99 = f"{REQUEST_TIME}_mean", f"{REQUEST_TIME}_99thpercentile"


@dataclass(frozen=True, slots=True)
class DeleteRequests:
    """One broker's own count; None: it does not tell, or of times that it had no request yet.

    `waiting` in its purgatory, for followers. `mean_ms` is since its start, `p99_ms` of late
    (Kafka's RequestMetrics has a histogram that forgets). `per_hour` is measured over a while.
    """

    broker_id: int
    waiting: int | None = None
    mean_ms: float | None = None
    p99_ms: float | None = None
    per_hour: int | None = None

    @property
    def told(self) -> bool:
        """Whether the broker tells any of it."""
        return (self.waiting, self.mean_ms, self.p99_ms) != (None, None, None)


def of_samples(
    samples: Iterable[BrokerMetric], brokers: Collection[int]
) -> tuple[DeleteRequests, ...]:
    """What these brokers told just now, by broker id; who told nothing has no row."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for sample in samples:
        if sample.broker_id in brokers:
            found[sample.broker_id][sample.name] = sample.value
    rows = (_row(broker_id, found[broker_id]) for broker_id in sorted(found))
    return tuple(row for row in rows if row.told)


def _row(broker_id: int, told: dict[str, float]) -> DeleteRequests:
    waiting = told.get(PURGATORY_SIZE)
    whole = None if waiting is None else round(waiting)
    return DeleteRequests(broker_id, whole, told.get(_MEAN), told.get(_P99))


def of_findings(traffic: pa.Table) -> tuple[DeleteRequests, ...]:
    """The same of `traffic` findings: as the newest snapshot told it."""
    own = traffic.filter(pc.is_null(traffic["topic"])).sort_by("broker_id")
    names = (
        "broker_id", "delete_requests_waiting", "delete_ms_mean", "delete_ms_p99",
        "delete_requests_per_hour",
    )  # fmt: skip
    rows = (DeleteRequests(*row) for row in zip(*(own[n].to_pylist() for n in names), strict=True))
    return tuple(row for row in rows if row.told)


def said(row: DeleteRequests) -> str:
    """`Broker 1: 2 requests wait for followers; they took 4 ms on average …`."""
    parts = []
    if row.waiting is not None:
        verb = "waits" if row.waiting == 1 else "wait"
        waits = f"{plural(row.waiting, 'DeleteRecords request')} {verb} for followers"
        parts.append(waits if row.waiting else "no DeleteRecords request waits")
    times = [
        f"{duration(ms / 1000)} {what}" if ms >= 100 else f"{ms:.0f} ms {what}"
        for ms, what in (
            (row.mean_ms, "on average since its start"),
            (row.p99_ms, "at most for 99 of 100 lately"),
        )
        if ms is not None
    ]
    if times:
        parts.append(f"they took {' and '.join(times)}")
    return f"Broker {row.broker_id}: {'; '.join(parts)}."
