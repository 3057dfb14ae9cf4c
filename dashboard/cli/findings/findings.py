"""`lowwater findings TABLE`: one table of the newest analysis, sorted by its key."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.errors import StoreError, UsageError
from dashboard.core.visible import in_lines

if TYPE_CHECKING:
    from dashboard.store.snapshots import ClusterStore

# What people read first; --json carries every column.
_COLUMNS = {
    "reclaimable": (
        "topic", "partition", "target", "target_offset", "records", "bytes_likely",
        "bytes_at_once", "method", "guards",
    ),
    "holds": ("topic", "partition", "group_id", "committed_offset", "last_commit_at"),
    "blockers": (
        "group_id", "topic", "bytes_held_alone", "bytes_freed_if_waived", "unmeasured",
        "group_state", "last_commit_at",
    ),
    "disks": (
        "broker_id", "log_dir", "total_bytes", "usable_bytes", "reclaimable_bytes", "held_bytes",
        "live_bytes", "guarded_bytes", "stray_bytes", "orphan_bytes", "unexplained_bytes", "error",
    ),
    "orphans": (
        "broker_id", "log_dir", "directory", "kind", "size_bytes", "newest_at", "verdict", "reason",
    ),
    "sightings": (
        "broker_id", "log_dir", "directory", "kind", "size_bytes", "first_seen_at",
        "last_seen_at", "snapshots_seen",
    ),
    "growth": (
        "topic", "broker_id", "log_dir", "bytes_in_per_hour", "bytes_out_per_hour",
        "growth_per_hour", "used_bytes_per_hour", "days_to_full_low", "days_to_full",
        "days_to_full_high", "window_seconds", "samples",
    ),
    "slow_followers": (
        "topic", "partition", "broker_id", "log_dir", "lag_records", "lag_bytes", "lag_seconds",
        "fetcher_lag", "log_start_lag", "trend", "slow", "cause",
    ),
    "traffic": (
        "topic", "broker_id", "bytes_in_per_hour", "bytes_out_per_hour", "bytes_out_per_day",
        "messages_in_per_hour", "replication_bytes_in_per_hour", "replication_bytes_out_per_hour",
        "fetch_requests_per_hour", "produce_requests_per_hour", "hour_samples", "hour_seconds",
        "resets", "missed",
    ),
    "unseen_readers": (
        "topic", "suspected", "measured", "bytes_out_per_hour", "explained_bytes_per_hour",
        "window_ms", "why", "until", "measured_at",
    ),
    "idle_topics": (
        "topic", "verdict", "kind", "quiet_since", "groups", "last_commit_at", "size_bytes",
        "evidence", "reason",
    ),
    "retention_fit": (
        "topic", "verdict", "lag_low_ms", "lag_high_ms", "retention_ms", "fits_ms",
        "freed_low_bytes", "freed_likely_bytes", "freed_high_bytes", "reason",
    ),
    "quality": ("table", "broker_id", "rows", "expected_rows", "complete", "reason"),
}  # fmt: skip
_NOT_YET = "growth_per_hour -: not enough history yet, it takes 3 snapshots over 10 minutes"
_HIDDEN = ("snapshot_id", "taken_at")


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "findings",
        description="One table of the newest analysis: reclaimable, holds, curves, blockers,\n"
        "disks, orphans, sightings, growth, trends, slow_followers, traffic, counters,\n"
        "unseen_readers, former_readers, idle_topics, last_writes, retention_fit, reader_lags\n"
        "or quality.\n"
        "Rows are sorted by the table's key; bytes are summed over replicas.",
        examples=(
            "lowwater findings reclaimable --topic orders",
            "lowwater findings blockers --limit 5 --json",
        ),
    )
    parser.add_argument("table", metavar="TABLE", help="which table")
    parser.add_argument(
        "--topic", action="append", metavar="T", help="only this topic (may be repeated)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most N rows")


def run(args: argparse.Namespace) -> int:
    """Print the rows. Raises StoreError NO_ANALYSIS, TABLE_UNKNOWN."""
    from dashboard.store.snapshot_files import spec_of

    check_limit(args.limit)
    spec_of("findings", args.table)  # an unknown table is told first
    _, cluster = context.open_cluster(args)
    analysis_id = cluster.latest_analysis()
    spec = spec_of("findings", args.table)
    _check_topic(args, spec.schema.names)
    table = cluster.read("findings", analysis_id, args.table, only=_of_topics(args.topic))
    # As Arrow: large tables are cut before they become rows.
    matching = table.sort_by([(column, "ascending") for column in spec.key])
    rows = matching.slice(0, args.limit).to_pylist()
    value = {
        "table": args.table,
        "analysis_id": analysis_id,
        "cluster_id": cluster.cluster_id,
        "rows": rows,
        "matching_rows": matching.num_rows,
    }
    output.emit(value, _text(args.table, rows, matching.num_rows), as_json=args.json)
    return 0


def check_limit(limit: int | None) -> None:
    """Raises UsageError for what is no number of rows."""
    if limit is not None and not 1 <= limit < 2**63:
        raise UsageError(
            f"--limit {limit} is no number of rows", "Give a number above 0, or leave it out."
        )


def checked(cluster: ClusterStore, analysis_id: str, table: str) -> str:
    """The table's name. Raises StoreError NO_ANALYSIS where an older release wrote the findings
    without it: nothing in it would read as nothing found.
    """
    if table not in cluster.manifest("findings", analysis_id).tables:
        raise StoreError(
            f"the newest analysis {analysis_id} is of an older release, without {table}",
            "Analyze again: lowwater analyze.",
            code="NO_ANALYSIS",
        )
    return table


def _check_topic(args: argparse.Namespace, columns: list[str]) -> None:
    if args.topic and "topic" not in columns:
        raise UsageError(
            f"the table {args.table} has no topics", "Leave --topic out, or choose another table."
        )


def _of_topics(topics: list[str] | None) -> Any:
    if not topics:
        return None
    import pyarrow.compute as pc

    return pc.field("topic").isin(topics)


def _text(name: str, rows: list[dict[str, Any]], matching: int) -> str:
    if not rows:
        return f"{name} has no such rows"
    columns = _COLUMNS.get(name) or [c for c in rows[0] if c not in _HIDDEN]
    lines: list[str] = [output.table([_readable(row) for row in rows], list(columns))]
    if len(rows) < matching:
        lines.append(f"{len(rows)} of {matching} rows")
    if name == "growth" and any(row["growth_per_hour"] is None for row in rows):
        lines.append(_NOT_YET)
    return in_lines(lines)


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    """Bytes in units that people read, and no more than tenths; --json keeps every digit."""
    return {name: _short(name, value) for name, value in row.items()}


def _short(name: str, value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 1)
    return output.size(value) if _is_size(name) and isinstance(value, int) else value


def _is_size(name: str) -> bool:
    return "bytes" in name or name == "growth_per_hour"
