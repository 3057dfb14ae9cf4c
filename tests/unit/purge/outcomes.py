"""Finished runs with receipts, for tests of what the estimators' errors are told to be."""

from __future__ import annotations

from datetime import timedelta

from dashboard.purge.journal.rows import Options, RunRow
from dashboard.purge.receipt.model import Receipt, TopicOutcome
from tests.unit.purge.facts_of import NOW, TOPIC


def kept(
    predicted: int,
    freed: int,
    low: int | None = None,
    high: int | None = None,
    *,
    method: str = "history",
    topic: str = TOPIC,
) -> TopicOutcome:
    """What a receipt keeps of one topic; without an interval it is the prediction alone."""
    low, high = predicted if low is None else low, predicted if high is None else high
    return TopicOutcome(topic, method, 1, low, predicted, high, freed)


def receipt(*lines: TopicOutcome, hours: int = 0, final: bool = True) -> Receipt:
    return Receipt(
        final=final,
        measured_at=NOW + timedelta(hours=hours),
        predicted_bytes=0,
        freed_bytes=0,
        calibration=lines,
    )


def run(run_id: str, found: Receipt | None) -> RunRow:
    return RunRow(
        run_id=run_id, plan_id="p", plan_sha256="p", cluster_id="cluster-1", cluster_name="prod",
        mode="wait-all", state="done", who="ann", from_where="here", typed="",
        options=Options(30_000, 500, 2, 0), connection={}, queued_at=NOW, started_at=NOW,
        closed_at=NOW, heartbeat_at=NOW, watched_until=NOW, wish=None, error=None,
        kept_receipt=found,
    )  # fmt: skip
