"""Our own metrics in Prometheus text: what is known now, in gauges, and what purges gave back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow.compute as pc
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from dashboard.exporter import own_findings
from dashboard.exporter.own_reading import Own, Purges
from dashboard.purge.journal.journal_rows import CLOSED_RUN_STATES, OPEN_RUN_STATES

__all__ = ["CONTENT_TYPE_LATEST", "families", "samples", "text"]
_PARTS = ("snapshot", "findings", "journal")


def families(own: Own, now: datetime, top: int) -> list[Metric]:
    """Every family that has a sample, in a fixed order."""
    found: list[Metric] = [*_cluster(own), *_ages(own, now), *_brokers(own)]
    found += own_findings.families(own.tables, own.inventoried, top)
    if own.purges is not None:
        found += _purges(own.purges)
    return [family for family in found if family.samples]


def text(found: Iterable[Metric]) -> bytes:
    """Prometheus text, format 0.0.4, with HELP and TYPE of each family."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Fixed(list(found)))
    return generate_latest(registry)


def samples(found: Iterable[Metric]) -> list[dict[str, Any]]:
    """`{name, labels, value}` of every sample, in the order of the text."""
    return [
        {"name": sample.name, "labels": dict(sample.labels), "value": sample.value}
        for family in found
        for sample in family.samples
    ]


class _Fixed(Collector):
    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _cluster(own: Own) -> list[Metric]:
    info = GaugeMetricFamily(
        "lowwater_cluster_info", "Which cluster this is about.", labels=["cluster_id", "cluster"]
    )
    info.add_metric([own.cluster_id, own.name], 1)
    readable = GaugeMetricFamily(
        "lowwater_readable",
        "1: this part of the data could be read; 0: its samples are missing for now.",
        labels=["part"],
    )
    for part in _PARTS:
        readable.add_metric([part], int(part not in own.unreadable))
    return [info, readable]


def _ages(own: Own, now: datetime) -> list[Metric]:
    """Of the newest snapshot, and of the one that the newest findings were made from."""
    found: list[Metric] = []
    for name, at, what in (
        ("snapshot", own.snapshot.taken_at if own.snapshot else None, "the newest snapshot"),
        ("findings", _findings_at(own), "the snapshot behind the newest findings"),
    ):
        moment = GaugeMetricFamily(
            f"lowwater_{name}_timestamp_seconds", f"Unix time at which {what} was taken."
        )
        age = GaugeMetricFamily(f"lowwater_{name}_age_seconds", f"Age of {what}.")
        if at is not None:
            moment.add_metric([], at.timestamp())
            age.add_metric([], (now - at).total_seconds())
        found += [moment, age]
    return found


def _findings_at(own: Own) -> datetime | None:
    rows = own.tables.get("quality")
    taken_at: datetime | None = pc.max(rows["taken_at"]).as_py() if rows else None
    return taken_at


def _brokers(own: Own) -> list[Metric]:
    """Each broker of the newest snapshot, and how many of them did not answer."""
    answered = GaugeMetricFamily(
        "lowwater_broker_answered",
        "1: the broker answered the newest snapshot; 0: its rows are missing.",
        labels=["broker_id"],
    )
    missing = GaugeMetricFamily(
        "lowwater_brokers_missing", "Brokers that did not answer the newest snapshot."
    )
    seen = (own.snapshot.details.get("brokers") if own.snapshot else None) or []
    for broker in seen:
        answered.add_metric([str(broker["broker_id"])], int(bool(broker["reachable"])))
    if seen:
        missing.add_metric([], sum(not broker["reachable"] for broker in seen))
    return [answered, missing]


def _purges(purges: Purges) -> list[Metric]:
    """Runs of this state folder; receipts only once they are final and were predicted."""
    runs = GaugeMetricFamily(
        "lowwater_purge_runs", "Purge runs in the journal, by state.", labels=["state"]
    )
    counted = Counter(run.state for run in purges.runs)
    for state in (*OPEN_RUN_STATES, *CLOSED_RUN_STATES):
        runs.add_metric([state], counted[state])
    undone = GaugeMetricFamily(
        "lowwater_purge_reverted_partitions",
        "Partitions whose purged records came back and were not purged again.",
    )
    undone.add_metric([], purges.reverted_partitions)
    predicted = CounterMetricFamily(
        "lowwater_purge_predicted_bytes", "Bytes that purges with a final receipt promised."
    )
    freed = CounterMetricFamily("lowwater_purge_freed_bytes", "Bytes that these purges freed.")
    receipts = CounterMetricFamily("lowwater_purge_receipts", "Final receipts that both count.")
    known = [
        run.receipt
        for run in purges.runs
        if run.receipt and run.receipt_final
        and None not in (run.receipt["predicted_bytes"], run.receipt["freed_bytes"])
    ]  # fmt: skip
    predicted.add_metric([], sum(receipt["predicted_bytes"] for receipt in known))
    freed.add_metric([], sum(receipt["freed_bytes"] for receipt in known))
    receipts.add_metric([], len(known))
    return [runs, undone, predicted, freed, receipts]
