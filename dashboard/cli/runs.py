"""`lowwater runs`: every purge run in this state folder; --verify checks the journal's chain."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.errors import JournalError

if TYPE_CHECKING:
    from dashboard.purge.journal_rows import RunView

_COLUMNS = ("run_id", "state", "mode", "cluster_name", "who", "queued_at", "counts", "freed")


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "runs",
        "list purge runs, newest first; check the journal's chain",
        description="Lists the purge runs that this state folder knows, newest first.\n"
        "--verify checks the hash chain of the journal; a broken one is exit 70.",
        examples=("lowwater runs", "lowwater runs --verify --json"),
    )
    parser.add_argument("--verify", action="store_true", help="check the journal's hash chain")


def run(args: argparse.Namespace) -> int:
    """Print the runs; 70 with --verify when the chain is broken. Raises JournalError."""
    with context.open_journal(context.read_settings(args)) as journal:
        rows = [r for r in journal.runs() if args.cluster in (None, r.cluster_id, r.cluster_name)]
        found = [_row(journal.run(row.run_id)) for row in rows]
        verification = journal.verify() if args.verify else None
    value: dict[str, Any] = {"runs": found}
    text = _text(found)
    if verification is not None:
        value["verification"] = {
            "ok": verification.ok,
            "entries": verification.entries,
            "problems": list(verification.problems),
        }
        text += f"\nchain verified to entry {verification.entries}" * verification.ok
    if verification is not None and not verification.ok:
        error = _broken(verification.problems)
        output.emit({**value, **error.to_json()}, text, as_json=args.json)
        if not args.json:
            output.emit_error(error, as_json=False)
        return error.exit_code
    output.emit(value, text, as_json=args.json)
    return 0


def _row(view: RunView) -> dict[str, Any]:
    """The run without its partitions: `lowwater run` shows those."""
    return {name: value for name, value in view.to_json().items() if name != "partitions"}


def _text(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "no purge has run with this state folder"
    return output.table([_readable(row) for row in rows], _COLUMNS)


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    counts = ", ".join(f"{count} {state}" for state, count in row["counts"].items())
    receipt = row["receipt"]
    freed = output.size(receipt["freed_bytes"]) if receipt else None
    return {**row, "counts": counts, "freed": freed}


def _broken(problems: tuple[str, ...]) -> JournalError:
    return JournalError(
        f"the journal does not verify: {'; '.join(problems[:3])}",
        "Keep the file as it is, find out who changed it, and start a new state_dir.",
        code="JOURNAL_BROKEN",
    )
