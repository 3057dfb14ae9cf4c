"""A run with which nobody goes on: it is closed, and what was never sent is not done and says why;
or it waits for another worker.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from dashboard.core.errors import LowwaterError
from dashboard.purge.execute.states import followed, not_sent, run_state, unanswered
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_rows import RunRow
from dashboard.purge.plan.moves import refused


def close(journal: Journal, run: RunRow, kind: str, error: LowwaterError, now: datetime) -> None:
    """Close the run for this error, with one entry of `kind`; what was sent stays unknown.

    Also what waited to be sent again: nobody has read since whether the first request took effect.
    """
    rows = [r for r in journal.partitions(run.run_id) if r.state in ("pending", "sent")]
    changed = [
        unanswered(r, error.code) if r.was_sent else not_sent(r, error.code, error.message)
        for r in rows
    ]
    journal.record(run.run_id, kind, changed, now, code=error.code)
    moves = [m for m in journal.moves(run.run_id) if m.state == "pending"]
    if moves:
        unmoved = [refused(m, error.code, error.message) for m in moves]
        journal.record_moves(run.run_id, "moves-refused", unmoved, now)
    after = journal.partitions(run.run_id)
    watched = any(map(followed, after))
    journal.set_run(
        run.run_id,
        run_state(after, run.mode, cancelled=run.wish == "cancel"),
        now,
        error=error.to_json()["error"],
        watched_until=now + timedelta(milliseconds=run.options.watch_for_ms if watched else 0),
    )


def leave(journal: Journal, run_id: str, error: LowwaterError, now: datetime) -> None:
    """Leave the run open for another worker, with why this one could not start; one entry each why.

    What says why a run waits for a person stays. One that a person resumed is `paused` until a
    worker goes on with it, and waits for that alone. One that is closed is left as it is.
    """
    run = journal.head(run_id)
    if not run.open or run.wish == "pause":
        return
    if run.error is None or run.error["code"] != error.code:
        message = f"no worker could start, so it waits for another one: {error.message}"
        why = {"code": error.code, "message": message, "next": error.next_step}
        journal.set_run(run_id, run.state, now, error=why)
