"""The journal for auditors: everything as JSON, or one CSV line per purged partition."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from dashboard.core.clock import format_time
from dashboard.core.csv_cells import rows_as_csv
from dashboard.purge.journal.journal_reads import JournalReads
from dashboard.purge.journal.journal_rows import PartitionRow, RunView

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
        "options": asdict(view.run.options),
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
