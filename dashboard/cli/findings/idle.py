"""`lowwater idle`: topics that nobody writes to and nobody reads, and the line that deletes one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from dashboard.cli import context, output
from dashboard.cli.findings.findings import check_limit, checked
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.clock import utc_now
from dashboard.core.errors import UsageError
from dashboard.core.visible import in_lines, in_paragraphs
from dashboard.history.findings_age import Age, age_of
from dashboard.settings.topics import MOST_DAYS
from dashboard.topics.idle import Idle, IdleTopic, headline, idle, risks, sure

_DESCRIPTION = """\
Topics without a write for so many days, without members of a group and without a commit, by
the newest analysis; by which evidence that is known; what deleting them would give back. What
is not known for long enough, or not wholly, is never called idle. Not proposed are topics
whose records somebody may still want (a group that has not read them, a replay window,
unlimited retention, readers that nobody knows), and dead-letter, retry, compacted topics,
those of Kafka Streams and of tools.
Lowwater deletes no topic: it prints the line to copy, and none from findings that are too old
to tell of now."""
_COLUMNS = ("topic", "kind", "quiet since", "groups", "last commit", "bytes", "sure by")


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "idle",
        description=_DESCRIPTION,
        examples=("lowwater idle", "lowwater idle --days 30 --json"),
    )
    parser.add_argument(
        "--days", type=int, metavar="N", help="quiet for so many days (days of [idle], or 7)"
    )
    parser.add_argument(
        "--topic", action="append", metavar="T", help="only this topic (may be repeated)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most N rows, idle ones first")


def run(args: argparse.Namespace) -> int:
    """Print the rows. Raises StoreError NO_ANALYSIS, UsageError."""
    check_limit(args.limit)
    _check_days(args.days)
    from dashboard.core.arrow import records
    from dashboard.purge.evidence import standards

    settings, cluster = context.open_cluster(args)
    analysis_id = cluster.latest_analysis()
    rows = cluster.read("findings", analysis_id, checked(cluster, analysis_id, "idle_topics"))
    chosen = [r for r in records(rows, IdleTopic) if not args.topic or r.topic in args.topic]
    analysis = cluster.manifest("findings", analysis_id)
    now = utc_now()
    age = age_of(cluster, analysis, now, settings.every)

    def ask(topics: Sequence[str]) -> Mapping[str, str]:
        return standards.said(settings, cluster, topics, now)

    found = idle(chosen, args.days or settings.idle.days, age.unusable, ask)
    servers = cluster.connection().bootstrap_servers
    sizes = [row.size_bytes for row in found.deletable]
    shown = found.rows[: args.limit]
    value = {
        "analysis_id": analysis_id,
        "cluster_id": cluster.cluster_id,
        **age.to_json(),
        "days": found.days,
        "idle": len(found.of("idle")),
        "proposed": len(found.deletable),
        "proposed_bytes": sum(size or 0 for size in sizes) if None not in sizes else None,
        "unknown": len(found.of("unknown")),
        "rows": [_row(found, row, servers) for row in shown],
        "matching_rows": len(found.rows),
    }
    price = settings.price.of(cluster.name, cluster.cluster_id)
    said = headline(found, price)
    output.emit(value, _text(said, found, age, shown, servers), as_json=args.json)
    return 0


def _row(found: Idle, row: IdleTopic, servers: str | None) -> dict[str, object]:
    line = found.delete_command(row, servers)
    return {
        **asdict(row),
        "not_proposed": found.not_proposed(row) if row.verdict == "idle" else None,
        "delete_command": line,
        "risks": risks(row) if line else [],
    }


def _check_days(days: int | None) -> None:
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise UsageError(
            f"--days {days} is no number of days", f"Give 1 to {MOST_DAYS}, or leave it out."
        )


def _text(said: str, found: Idle, age: Age, shown: Sequence[IdleTopic], servers: str | None) -> str:
    idle_rows = [row for row in shown if row.verdict == "idle"]
    parts: list[str] = [f"{age.said}: {said}"]
    if age.unusable:
        parts.append(f"No line is given: {age.unusable}.")
    if idle_rows:
        parts.append(output.table([_line(row) for row in idle_rows], list(_COLUMNS)))
    withheld = [(row.topic, found.not_proposed(row)) for row in idle_rows]
    reasons = [f"{topic}: not proposed: {why}" for topic, why in withheld
               if why and why != age.unusable]  # fmt: skip
    if reasons:
        parts.append(in_lines(reasons))
    unknown = [row for row in shown if row.verdict == "unknown"]
    if unknown:
        parts.append(in_lines(f"{row.topic}: {row.reason}" for row in unknown))
    offered = [(row, line) for row in idle_rows if (line := found.delete_command(row, servers))]
    if offered:
        parts.append("Lowwater deletes no topic. Before you do:")
    for row, line in offered:
        parts.append(in_lines([f"{row.topic}:", *(f"  {said}" for said in risks(row)), line]))
    return in_paragraphs(parts)


def _line(row: IdleTopic) -> dict[str, object]:
    return {
        "topic": row.topic,
        "kind": row.tool or row.kind or "unknown",
        "quiet since": row.quiet_since,
        "groups": row.groups,
        "last commit": row.last_commit_at,
        "bytes": output.size(row.size_bytes),
        "sure by": sure(row),
    }
