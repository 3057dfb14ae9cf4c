"""Until when a run may send: what was confirmed long ago is not sent, whoever takes the run up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from dashboard.clock import Mark, Stopwatch, format_time
from dashboard.purge.journal_rows import PartitionRow, RunRow
from dashboard.purge.states import not_sent

EXPIRED = "PLAN_EXPIRED"
_NEXT = "Plan the rest again: what the plan saw may have changed."


def expires_at(run: RunRow) -> datetime:
    """From then on nothing is sent, nor sent again.

    The run itself keeps how long that is from when it was queued (`plan_expires_after` of those
    settings), so that neither a later setting nor a plan's text extends it.
    """
    return run.queued_at + timedelta(milliseconds=run.options.unsent_for_ms)


def is_over(run: RunRow, watch: Stopwatch, began: Mark) -> bool:
    """Whether a run has expired: by the wall clock, or by what passed since a worker `began`."""
    until = expires_at(run)
    return watch.now() >= until or watch.since(began) >= until - began.at


def expired(row: PartitionRow, run: RunRow) -> PartitionRow:
    """A partition that waited for too long, with the reason."""
    text = f"nothing of run {run.run_id} is sent from {format_time(expires_at(run))} on"
    return not_sent(row, EXPIRED, text)


def expired_error(rows: Iterable[PartitionRow]) -> Mapping[str, str] | None:
    """The run's error object when partitions waited for too long, else None."""
    late = [row for row in rows if row.error == EXPIRED]
    if not late:
        return None
    return {
        "code": EXPIRED,
        "message": f"{len(late)} partitions were not sent in time: {late[0].message}",
        "next": _NEXT,
    }
