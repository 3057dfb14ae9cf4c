"""Goes on with a journal that was rolled back: a person's word, and nothing of it is sent."""

from __future__ import annotations

from datetime import datetime

from dashboard.core.clock import format_time
from dashboard.core.errors import JournalError, UsageError
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_file import append


def accept(
    journal: Journal, newest_entry: int, *, who: str, from_where: str, now: datetime
) -> list[str]:
    """Go on after its newest entry; the ids of the runs that were open in it, cancelled now.

    Cancels, switches and decisions since are forgotten, so that every purge stays switched off
    until an approver allows them. Raises UsageError JOURNAL_NOT_ROLLED_BACK, also for another
    entry than its newest; JournalError JOURNAL_BROKEN where it does not verify otherwise.
    """
    lost = journal.file.rolled_back()
    known = lost.message if lost else None
    others = [problem for problem in journal.verify().problems if problem != known]
    if others:
        raise JournalError(
            f"the journal does not verify, rolled back or not: {others[0]}",
            "Restore another backup, or start a new state_dir.",
            code="JOURNAL_BROKEN",
        )
    with journal.file.accepting() as db:
        head = journal.file.head()
        if lost is None or head.seq != newest_entry:
            raise UsageError(
                f"the journal's newest entry is {head.seq}, and it was "
                + ("rolled back" if lost else "not rolled back"),
                "Read what it says with: lowwater runs --verify.",
                code="JOURNAL_NOT_ROLLED_BACK",
            )
        said = {"who": who, "from_where": from_where, "through_seq": head.seq, "lost": known}
        append(db, None, "restored", said, now)
        found = db.execute("SELECT run_id FROM runs WHERE closed_at IS NULL ORDER BY rowid")
        open_runs = [row["run_id"] for row in found.fetchall()]
        for run_id in open_runs:
            db.execute("UPDATE runs SET wish='cancel', error=NULL WHERE run_id=?", (run_id,))
            append(db, run_id, "wish", {"wish": "cancel", "who": who}, now)
        db.execute("REPLACE INTO switches VALUES ('read_only',1,?,?)", (who, format_time(now)))
        append(db, None, "read-only", {"read_only": True, "who": who}, now)
    return open_runs
