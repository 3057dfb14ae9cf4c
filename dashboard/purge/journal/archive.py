"""Moves what ended long ago out of the journal into an archive: a folder with a journal in it; and
writes what the journal holds as CSV and JSON.

Each step copies whole runs and their links, makes them durable, and removes what compares equal in
the transaction that writes the link `archived`: where the chain goes on. Killed anywhere, nothing
is lost, and the same call goes on. A journal that was rolled back goes on by a person's word.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dashboard.core.clock import format_time
from dashboard.core.csv_cells import rows_as_csv
from dashboard.core.errors import JournalError, RefusedError, UsageError
from dashboard.core.system import make_durable
from dashboard.purge.journal.chain import Chain, PolicyKey, Switch
from dashboard.purge.journal.file import JournalFile
from dashboard.purge.journal.head import journal_in
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.links import MovedLink, append
from dashboard.purge.journal.reads import JournalReads
from dashboard.purge.journal.rows import Entry, PartitionRow, RunView
from dashboard.purge.journal.tables import UNDONE

_AT_ONCE = 20_000  # links: some tens of megabytes, and a second of the write lock

_OF_RUN = "run_id IN (SELECT run_id FROM temp.leaving_runs)"
_TABLES = {
    "entries": "seq <= (SELECT through FROM temp.leaving)",
    "runs": _OF_RUN,
    "run_topics": _OF_RUN,
    "run_partitions": _OF_RUN,
    "run_moves": _OF_RUN,
    "run_policies": _OF_RUN,
    "run_budgets": _OF_RUN,
    "run_archives": _OF_RUN,
    "purge_requests": "request_id IN (SELECT request_id FROM temp.leaving_requests)",
}
_ORDER = {"run_partitions": "run_id, topic, partition", "run_moves": "run_id, topic, partition"}
_LEAVING = (
    "CREATE TEMP TABLE IF NOT EXISTS leaving (through INTEGER)",
    "CREATE TEMP TABLE IF NOT EXISTS leaving_runs (run_id TEXT PRIMARY KEY)",
    "CREATE TEMP TABLE IF NOT EXISTS leaving_requests (request_id TEXT PRIMARY KEY)",
    "DELETE FROM temp.leaving",
    "DELETE FROM temp.leaving_runs",
    "DELETE FROM temp.leaving_requests",
    "INSERT INTO temp.leaving VALUES (:through)",
    """INSERT INTO temp.leaving_runs SELECT DISTINCT run_id FROM main.entries
      WHERE seq <= :through AND run_id IS NOT NULL""",
    """INSERT INTO temp.leaving_requests SELECT json_extract(plain(body), '$.request_id')
      FROM main.entries WHERE seq <= :through AND kind = 'asked'""",
)


@dataclass(frozen=True, slots=True)
class Archived:
    """What was moved; `held_by` is the run or request that keeps older links from leaving."""

    runs: int
    entries: int
    first_entry: int
    held_by: str | None


def archive(
    journal: Journal,
    folder: Path,
    *,
    before: datetime,
    who: str,
    from_where: str,
    now: datetime,
    tell: Callable[[int, int], None] | None = None,
    at_once: int = _AT_ONCE,
) -> Archived:
    """Move the runs that were over, and the links that were written, before a moment.

    The chain is moved from its oldest link on: a run that is open holds back what is younger than
    its first link. `tell` hears after each step how many links of how many have been moved. Raises
    JournalError JOURNAL_BROKEN for a chain that does not verify, UsageError ARCHIVE_FOLDER_INVALID,
    RefusedError ARCHIVE_MISMATCH when `folder` holds something else.
    """
    path = journal_in(folder)
    if journal.is_archive() or path.resolve() == journal.file.path.resolve():
        raise UsageError(
            f"{journal.file.path.parent} cannot be archived into {folder}",
            "Name a folder beside the journal's own, and the state_dir of a journal that grows.",
            code="ARCHIVE_FOLDER_INVALID",
        )
    chain, checked = journal.verify_on(Chain())
    if not checked.ok:
        raise JournalError(
            f"the journal does not verify, so nothing is moved: {checked.problems[0]}",
            "See what is wrong with: lowwater runs --verify.",
            code="JOURNAL_BROKEN",
        )
    spans = Spans.read(journal.file, before)
    if spans.through >= chain.first:
        _make(path, journal, who, now)
    said: MovedLink = {
        "folder": str(folder.resolve()), "who": who, "from_where": from_where,
        "before": format_time(before),
    }  # fmt: skip
    if chain.read_only is not None:  # where a link that stays tells it anew, that one counts
        said["read_only"] = chain.read_only
    first, runs = chain.first, 0
    switches = _switches(journal, "kind='archived' ORDER BY seq DESC LIMIT 1")
    with journal.file.attached(path) if spans.through >= first else nullcontext():
        while first <= spans.through:
            through = spans.whole(min(first + at_once - 1, spans.through))
            if through < first:  # one run is longer than a step
                at_once *= 2
                continue
            switches |= _switches(journal, f"kind='policy' AND seq<={through:d} ORDER BY seq")
            _copy(journal, path, first, through)
            told: MovedLink = {**said, "through_seq": through, "policies": _listed(switches)}
            runs += _remove(journal, path, first, told, now)
            if tell is not None:
                tell(through - chain.first + 1, spans.through - chain.first + 1)
            first = through + 1
    return Archived(runs, first - chain.first, first, spans.held_by)


def _make(path: Path, journal: Journal, who: str, now: datetime) -> None:
    """The archive's file, made if it is not there; refused unless this journal goes on from it."""
    other = Journal(path, on_network=journal.file.on_network)
    try:
        if not other.is_archive() and other.newest_entry():
            raise _mismatch(path, "it holds a journal that is no archive")
        with other.file.write() as db:
            for switch in ("archive", "read_only"):
                row = (switch, 1, who, format_time(now))
                db.execute("INSERT OR IGNORE INTO switches VALUES (?,?,?,?)", row)
        make_durable(path.parent)  # the journal is about to rely on the new file
        ours = journal.entries(limit=1)
        if ours and other.newest_entry() and not _leads_to(other, ours[0]):
            raise _mismatch(path, f"its chain does not lead to entry {ours[0].seq}")
    finally:
        other.close()


def _leads_to(other: Journal, ours: Entry) -> bool:
    """Whether the archive has the link before ours, or ours itself: a step that was cut off."""
    around = other.entries(after=max(0, ours.seq - 2), limit=2)
    return any(
        (entry.seq, entry.hash) in ((ours.seq - 1, ours.previous_hash), (ours.seq, ours.hash))
        for entry in around
    )


def _mismatch(path: Path, why: str) -> RefusedError:
    return RefusedError(
        f"{path.parent} is not the archive of this journal: {why}",
        "Name its own archive, or a new folder: each archive verifies by itself.",
        code="ARCHIVE_MISMATCH",
    )


def _switches(journal: Journal, where: str) -> dict[PolicyKey, Switch]:
    """The switches of policies that those links tell."""
    chain = Chain()
    chain.fold(journal.file.rows(f"SELECT * FROM entries WHERE {where}"))
    return chain.switches


def _listed(switches: Mapping[PolicyKey, Switch]) -> list[tuple[str, str, bool, str]]:
    return [(*key, *switch) for key, switch in sorted(switches.items())]


def _copy(journal: Journal, path: Path, first: int, through: int) -> None:
    """Copy the links up to `through` and what belongs to them; durable when it returns."""
    for statement in _LEAVING:
        journal.file.rows(statement, {"through": through})
    try:
        with journal.file.write() as db:
            _refuse_overtaken(db, path, first)
            for table, leaving in _TABLES.items():
                db.execute(
                    f"INSERT OR IGNORE INTO archive.{table} SELECT * FROM main.{table} "
                    f"WHERE {leaving} ORDER BY {_ORDER.get(table, 'rowid')}"
                )
    except JournalError as error:
        raise JournalError(
            f"the archive {path} cannot be written: {error.__cause__}",
            "Free disk space or correct its rights, and call it again: nothing is lost.",
        ) from error


def _refuse_overtaken(db: sqlite3.Connection, path: Path, first: int) -> None:
    """Another call moved our next link, into another folder perhaps: then ours would have a gap."""
    oldest = db.execute("SELECT min(seq) AS seq FROM main.entries").fetchone()["seq"]
    if oldest != first:
        raise _mismatch(path, f"entry {first} was moved meanwhile by another process")


def _remove(journal: Journal, path: Path, first: int, told: MovedLink, now: datetime) -> int:
    """Remove what the archive has, unless something differs there; how many runs."""
    with journal.file.write() as db:
        _refuse_overtaken(db, path, first)
        for table, leaving in _TABLES.items():
            rows = f"SELECT * FROM {{}}.{table} WHERE {leaving}"
            differ = f"{rows.format('main')} EXCEPT {rows.format('archive')} LIMIT 1"
            if db.execute(differ).fetchone():
                raise _mismatch(path, f"its table {table} differs from the journal's")
        through = (told["through_seq"],)
        last = db.execute("SELECT hash FROM main.entries WHERE seq=?", through).fetchone()
        runs = int(db.execute("SELECT count(*) FROM temp.leaving_runs").fetchone()[0])
        append(db, None, "archived", {**told, "hash": last["hash"], "runs": runs}, now)
        for table in reversed(_TABLES):  # links last: they say what leaves
            db.execute(f"DELETE FROM main.{table} WHERE {_TABLES[table]}")
    return runs


# Which links of the chain may leave the journal: from the oldest on, and whole runs only.

# A run stays while it is open, its replicas are watched, or records that came back stand as an
# alert; a request until it has expired.
_KEPT = f"""
SELECT min(e.seq) AS seq, r.run_id AS name FROM runs r JOIN entries e ON e.run_id = r.run_id
WHERE r.closed_at IS NULL OR r.closed_at >= :before OR r.watched_until >= :before
  OR r.run_id IN (SELECT run_id FROM purge_requests WHERE expires_at >= :before)
  OR r.run_id IN (SELECT p.run_id FROM {UNDONE})
GROUP BY r.run_id
UNION ALL
SELECT min(e.seq), q.request_id FROM entries e JOIN purge_requests q
  ON q.request_id = json_extract(plain(e.body), '$.request_id')
WHERE e.kind = 'asked' AND q.expires_at >= :before GROUP BY q.request_id
ORDER BY 1 LIMIT 1
"""
_SPANS = """
SELECT min(seq) AS first, max(seq) AS last FROM entries WHERE run_id IS NOT NULL GROUP BY run_id
UNION ALL
SELECT min(seq), max(seq) FROM entries WHERE kind IN ('asked', 'approved', 'rejected')
GROUP BY json_extract(plain(body), '$.request_id')
ORDER BY 1 DESC
"""


@dataclass(frozen=True, slots=True)
class Spans:
    """Links up to `through` may leave; `held_by` is the run or request that keeps older ones."""

    through: int
    held_by: str | None
    spans: Sequence[
        tuple[int, int]
    ]  # the first and last link of each run and request, youngest first

    @classmethod
    def read(cls, file: JournalFile, before: datetime) -> Spans:
        """What was written, closed and watched to its end before a moment."""
        moment = {"before": format_time(before)}
        young = file.rows("SELECT min(seq) AS seq FROM entries WHERE at >= :before", moment)
        newest = file.rows("SELECT coalesce(max(seq), 0) AS seq FROM entries")
        old = newest[0]["seq"] if young[0]["seq"] is None else young[0]["seq"] - 1
        kept = file.rows(_KEPT, moment)
        held_by = kept[0]["name"] if kept and kept[0]["seq"] <= old else None
        found = cls(old, held_by, [(row["first"], row["last"]) for row in file.rows(_SPANS)])
        through = found.whole(kept[0]["seq"] - 1 if held_by else old)
        return cls(through, held_by, found.spans)

    def whole(self, through: int) -> int:
        """The highest link up to `through` after which no run or request goes on."""
        for first, last in self.spans:
            if first <= through < last:
                through = first - 1
        return through


# Goes on with a journal that was rolled back: a person's word, and nothing of it is sent.


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


# The journal for auditors: everything as JSON, or one CSV line per purged partition.

_RUN_COLUMNS = (
    "run_id", "cluster_id", "cluster_name", "mode", "run_state", "who", "approved_by", "from",
    "typed", "plan_id", "plan_sha256", "queued_at", "started_at", "closed_at",
)  # fmt: skip
_PARTITION_COLUMNS = (
    "topic", "partition", "target_offset", "state", "attempts", "sent_leader_id", "sent_at",
    "answer_error_code", "low_watermark", "leader_log_start_offset", "followers_behind", "error",
    "message", "predicted_bytes",
)  # fmt: skip


def as_json(
    journal: JournalReads, run_ids: Collection[str] | None = None, *, as_archive: bool = False
) -> str:
    """All runs, or those named, with plans and partitions, and the whole chain of entries.

    `entries` has the runs that `run_ids` leaves out too: a part of a chain cannot be verified.
    Raises JournalError.
    """
    checked = journal.verify(as_archive=as_archive)
    document = {
        "runs": [_run(journal, view) for view in _chosen(journal, run_ids)],
        "entries": [asdict(entry) for entry in journal.entries()],
        "verification": checked.to_json(),
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def as_csv(journal: JournalReads, run_ids: Collection[str] | None = None) -> str:
    """One line per partition of each run, newest run first, with who, when, from where and what.

    Unknown is an empty cell; text that a spreadsheet would run as a formula gets a leading
    apostrophe. Raises JournalError.
    """
    lines = (
        [*head, *_partition_values(row)]
        for view in _chosen(journal, run_ids)
        for head in (_run_values(view),)
        for row in view.partitions
    )
    return rows_as_csv((*_RUN_COLUMNS, *_PARTITION_COLUMNS), lines)


def _chosen(journal: JournalReads, run_ids: Collection[str] | None) -> list[RunView]:
    runs = journal.runs()
    return [journal.run(r.run_id) for r in runs if run_ids is None or r.run_id in run_ids]


def _run(journal: JournalReads, view: RunView) -> dict[str, object]:
    plan = json.loads(journal.plan(view.run.run_id).to_json_text())
    return {
        **view.to_json(),
        "typed": view.run.typed,
        "plan_sha256": view.run.plan_sha256,
        "options": view.run.options.to_json(),
        "plan": plan,
    }


def _run_values(view: RunView) -> list[Any]:
    run, body = view.run, view.to_json()
    values = {**body, "run_state": run.state, "typed": run.typed, "plan_sha256": run.plan_sha256}
    return [values[name] for name in _RUN_COLUMNS]


def _partition_values(row: PartitionRow) -> list[Any]:
    values = {
        **asdict(row),
        **row.to_json(),
        "sent_at": format_time(row.sent_at) if row.sent_at else None,
    }
    return [values[name] for name in _PARTITION_COLUMNS]
