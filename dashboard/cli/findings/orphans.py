"""`lowwater orphans`: folders that the cluster no longer knows, and what each disk is made of."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.findings import orphans_run, orphans_sweep
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.clock import format_time, utc_now
from dashboard.core.errors import UsageError
from dashboard.core.visible import in_lines, in_paragraphs
from dashboard.history.findings_age import Age, age_of
from dashboard.store.finding_rows import DiskRow, OrphanRow

if TYPE_CHECKING:
    from dashboard.orphans.verdicts import MissingInventory
    from dashboard.store.snapshots import ClusterStore

_DESCRIPTION = """\
Partition folders that the cluster no longer knows, as the newest analysis found them: what
each one is, how many bytes it holds, since when it is seen, and whether it may go. Then what
each disk is made of, and the line that lists a broker's disk which nobody scanned.
Changes nothing; `sweep`, on a broker's host, acts on the file that --out writes, and `run` there
is the service that does so by itself."""
_ROWS = ("broker", "log dir", "directory", "kind", "on disk", "newest", "verdict", "reason")
_PARTS = (
    "live", "held", "reclaimable", "future", "stray", "orphan", "delete", "index", "unexplained",
)  # fmt: skip


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "orphans",
        description=_DESCRIPTION,
        examples=(
            "lowwater orphans --json",
            "lowwater orphans --out verdicts.json",
            *orphans_sweep.EXAMPLES,
            *orphans_run.EXAMPLES,
        ),
    )
    parser.add_argument(
        "action", nargs="?", choices=("sweep", "run"), help="act on a verdicts file, or by itself"
    )
    parser.add_argument("--out", metavar="VERDICTS", help="write the verdicts for `sweep`")
    orphans_sweep.add_flags(parser)
    orphans_run.add_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Print the orphans, or sweep. Raises StoreError NO_ANALYSIS, UsageError FILE_UNWRITABLE."""
    if args.action and args.out:
        raise UsageError(f"lowwater orphans {args.action} does not take --out", "Leave it out.")
    if args.action == "run":
        return orphans_run.run(args)
    orphans_run.refuse_flags(args, run=False)
    if args.action == "sweep":
        return orphans_sweep.run(args)
    orphans_sweep.refuse_flags(args)
    if args.out:
        output.check_writable(args.out)
    settings, cluster = context.open_cluster(args)
    analysis_id = cluster.latest_analysis()
    age = age_of(cluster, cluster.manifest("findings", analysis_id), utc_now(), settings.every)
    from dashboard.core.arrow import records
    from dashboard.domain.acts import seen_once
    from dashboard.orphans.verdicts import missing_inventories
    from dashboard.store.finding_rows import DiskRow, OrphanRow

    names = ("orphans", "disks", "sightings")
    found, disks, seen = (cluster.read("findings", analysis_id, name) for name in names)
    missing, once = missing_inventories(disks.to_pylist()), seen_once(seen.to_pylist())
    value = {
        "analysis_id": analysis_id,
        "cluster_id": cluster.cluster_id,
        "rows": found.to_pylist(),
        "disks": disks.to_pylist(),
        "missing": [broker.to_json() for broker in missing],
        "seen_once": once,
        **age.to_json(),
    }
    rows = [_cells(row) for row in records(found, OrphanRow)]
    text = _text(rows, [_disk(row) for row in records(disks, DiskRow)], age, missing, once)
    if args.out:
        value["verdicts"] = written = _write(cluster, analysis_id, args.out)
        until = written["expires_at"]
        text = in_paragraphs([text, f"verdicts written to {args.out}, valid until {until}"])
    output.emit(value, text, as_json=args.json)
    return 0


def _write(cluster: ClusterStore, analysis_id: str, path: str) -> dict[str, str]:
    """The verdicts as a file: which, its sha256, and until when a sweep takes it."""
    from dashboard.orphans import verdicts

    found = verdicts.of_analysis(cluster, analysis_id, now=utc_now())
    output.write_text(path, verdicts.write(found))
    until = format_time(found.expires_at)
    return {"file": path, "sha256": found.sha256, "expires_at": until}


Cells = dict[str, object]


def _text(
    rows: Sequence[Cells],
    disks: Sequence[Cells],
    age: Age,
    missing: Sequence[MissingInventory],
    seen_once: int,
) -> str:
    known = f"orphans known: {len(rows)}" if rows else "no orphan is known"
    parts = [f"{age.said}: {known}.", *([output.table(rows, _ROWS)] if rows else [])]
    if age.unusable:
        parts.insert(1, f"This may have changed: {age.unusable}.")
    if seen_once:
        parts.append(
            f"seen once only, no orphan yet: {seen_once}; take another inventory, then "
            "collect and analyze again"
        )
    if disks:
        parts.append(output.table(disks, tuple(disks[0])))
    parts += [in_lines([f"{broker.said}:", broker.line]) for broker in missing]
    if missing:
        parts.append(
            "then here: lowwater inventory read LISTING --broker N --out N.inventory, "
            "and collect with --inventory N.inventory"
        )
    return in_paragraphs(parts)


def _cells(row: OrphanRow) -> Cells:
    on_disk = row.size_bytes if row.allocated_bytes is None else row.allocated_bytes
    until = f", again at {output.cell(row.check_at)}" if row.check_at else ""
    return {
        "broker": row.broker_id,
        "log dir": row.log_dir,
        "directory": row.directory or f"{row.topic}-{row.partition}",
        "kind": row.kind,
        "on disk": output.size(on_disk),
        "newest": row.newest_at,
        "verdict": row.verdict + until,
        "reason": row.reason,
    }


def _disk(row: DiskRow) -> Cells:
    return {
        "broker": row.broker_id,
        "log dir": row.log_dir,
        "used": output.size_cell(row.used_bytes),
        **{name: output.size_cell(getattr(row, f"{name}_bytes")) for name in _PARTS},
    }
