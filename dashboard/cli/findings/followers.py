"""`lowwater followers`: who is slow, why, and what each follower lacks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.findings.findings import check_limit
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.visible import in_lines

if TYPE_CHECKING:
    from dashboard.store.finding_rows import SlowFollower

_COLUMNS = ("broker", "topic", "partition", "behind", "bytes", "log start", "trend", "cause")


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "followers",
        description="Every replica that follows a leader, by the newest analysis: how far it is\n"
        "behind, how that goes on, and why. A follower between two fetches is not slow.\n"
        "Without --json the slow ones alone, a sentence for each thing that is at fault.",
        examples=("lowwater followers", "lowwater followers --slow --json"),
    )
    parser.add_argument(
        "--topic", action="append", metavar="T", help="only this topic (may be repeated)"
    )
    parser.add_argument("--slow", action="store_true", help="only the slow ones, also with --json")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N rows, furthest first")


def run(args: argparse.Namespace) -> int:
    """Print the rows. Raises StoreError NO_ANALYSIS, UsageError."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from dashboard.core.arrow import records
    from dashboard.store.finding_rows import SlowFollower
    from dashboard.views.followers import slow_units

    check_limit(args.limit)
    _, cluster = context.open_cluster(args)
    analysis_id = cluster.latest_analysis()
    table = cluster.read("findings", analysis_id, "slow_followers")
    if args.topic:
        table = table.filter(pc.is_in(table["topic"], pa.array(args.topic, pa.string())))
    units = slow_units(table)
    slow = table.filter(pc.fill_null(table["slow"], False))
    wanted = slow if args.slow or not args.json else table
    shown = wanted.sort_by(_FURTHEST).slice(0, args.limit)
    value = {
        "analysis_id": analysis_id,
        "cluster_id": cluster.cluster_id,
        "followers": table.num_rows,
        "slow": slow.num_rows,
        "sentences": [unit.text for unit in units],
        "rows": shown.to_pylist(),
        "matching_rows": wanted.num_rows,
    }
    counts = table.num_rows, slow.num_rows, wanted.num_rows
    text = _text(records(shown, SlowFollower), [unit.text for unit in units], *counts)
    output.emit(value, text, as_json=args.json)
    return 0


_FURTHEST = [
    ("slow", "descending"),
    ("lag_seconds", "descending"),
    ("lag_records", "descending"),
    ("topic", "ascending"),
    ("partition", "ascending"),
    ("broker_id", "ascending"),
]


def _text(
    shown: Sequence[SlowFollower], said: Sequence[str], followers: int, slow: int, matching: int
) -> str:
    from dashboard.core.words import plural

    count = plural(followers, "follower")
    if not shown:
        return f"{count}, none of them slow"
    lines = [f"{slow} of {count} slow", *(f"  {sentence}" for sentence in said), ""]
    left = matching - len(shown)
    table = output.table([_line(row) for row in shown], list(_COLUMNS))
    return in_lines([*lines, table, *([f"and {left} more"] if left else [])])


def _line(row: SlowFollower) -> dict[str, object]:
    from dashboard.core.words import behind, plural

    lag = row.lag_records
    start = plural(row.log_start_lag, "record") if row.log_start_lag else None
    return {
        "broker": row.broker_id,
        "topic": row.topic,
        "partition": row.partition,
        "behind": "unknown" if lag is None else behind(lag, row.lag_seconds),
        "bytes": None if row.lag_bytes is None else output.size(row.lag_bytes),
        # The one that holds the low watermark says so.
        "log start": f"{start}, holds" if start and row.holds_low_watermark else start,
        "trend": row.trend if row.alive else "no answer",
        "cause": row.cause,
    }
