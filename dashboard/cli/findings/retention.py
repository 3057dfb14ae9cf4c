"""`lowwater retention`: which shorter retention fits each topic's declared readers, as text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dashboard.cli import context, output
from dashboard.cli.findings.findings import check_limit, checked
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.clock import utc_now
from dashboard.core.visible import Lines, in_lines, in_paragraphs
from dashboard.history.findings_age import Age, age_of
from dashboard.topics.retention_fit import (
    CAUTION,
    FORMS,
    KEEP,
    SHORTER,
    RetentionFit,
    change,
    headline,
    in_order,
    span,
)

_DESCRIPTION = """\
For each topic whose readers are declared: the longest lag of these in time, its retention, a
shorter one that would still fit (that lag with the margin of [retention], not below the replay
window), and what that would free, with bounds, by the newest analysis. Never for compacted
topics, nor where somebody may read whom no group shows.
Lowwater changes no topic: it prints the change to copy, and none where a purge of the topic
would be asked who else may want its records, or from findings that are too old to tell of now."""
_COLUMNS = ("topic", "verdict", "longest lag", "kept now", "would fit", "frees", "at least",
            "at most")  # fmt: skip


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "retention",
        description=_DESCRIPTION,
        examples=("lowwater retention", "lowwater retention --as terraform --topic orders"),
    )
    parser.add_argument(
        "--as", dest="form", choices=FORMS, default=FORMS[0], help="for which tool the text is"
    )
    parser.add_argument(
        "--topic", action="append", metavar="T", help="only this topic (may be repeated)"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="at most N rows, most freed first")


def run(args: argparse.Namespace) -> int:
    """Print the rows. Raises StoreError NO_ANALYSIS, UsageError."""
    check_limit(args.limit)
    from dashboard.core.arrow import records
    from dashboard.purge.evidence import standards

    settings, cluster = context.open_cluster(args)
    analysis_id = cluster.latest_analysis()
    table = cluster.read("findings", analysis_id, checked(cluster, analysis_id, "retention_fit"))
    found = in_order(
        r for r in records(table, RetentionFit) if not args.topic or r.topic in args.topic
    )
    analysis = cluster.manifest("findings", analysis_id)
    now = utc_now()
    age = age_of(cluster, analysis, now, settings.every)
    servers = cluster.connection().bootstrap_servers
    shown = found[: args.limit]
    shorter = [row.topic for row in shown if row.verdict == SHORTER]
    doubted = {} if age.unusable else standards.said(settings, cluster, shorter, now)
    told = [Proposal(row, age.unusable or doubted.get(row.topic, ""), servers) for row in shown]
    value = {
        "analysis_id": analysis_id,
        "cluster_id": cluster.cluster_id,
        **age.to_json(),
        "shorter": sum(row.verdict == "shorter" for row in found),
        "unknown": sum(row.verdict == "unknown" for row in found),
        "rows": [proposal.to_json() for proposal in told],
        "matching_rows": len(found),
    }
    price = settings.price.of(cluster.name, cluster.cluster_id)
    said = headline(found, price) if found else (
        "No topic's readers are declared: how long its records are needed is not known."
    )  # fmt: skip
    output.emit(value, _text(said, age, told, args.form), as_json=args.json)
    return 0


@dataclass(frozen=True, slots=True)
class Proposal:
    """A topic's row, why nothing is proposed to it ("": something is), and whom it is for."""

    row: RetentionFit
    why: str
    servers: str | None

    def change(self, form: str) -> str | None:
        return change(self.row, form, self.servers, self.why)

    def to_json(self) -> dict[str, object]:
        """The row's columns, and the change in each form."""
        changes = {form: self.change(form) for form in FORMS}
        return {**asdict(self.row), "not_proposed": self.why or None, "changes": changes}


def _text(said: str, age: Age, told: Sequence[Proposal], form: str) -> str:
    parts: list[str] = [f"{age.said}: {said}"]
    if age.unusable:
        parts.append(f"No change is given: {age.unusable}.")
    if told:
        parts.append(output.table([_line(each.row) for each in told], list(_COLUMNS)))
    reasons = [f"{each.row.topic}: {each.row.reason}" for each in told
               if each.row.verdict not in _PLAIN]  # fmt: skip
    if not age.unusable:
        reasons += [f"{each.row.topic}: not proposed, {each.why}" for each in told if each.why]
    if reasons:
        parts.append(in_lines(reasons))
    changes = [text for each in told if (text := each.change(form))]
    if changes:
        parts.append(CAUTION)
        parts += [_lines(text) for text in changes]
    return in_paragraphs(parts)


_PLAIN = (SHORTER, KEEP)


def _lines(text: str) -> Lines:
    return in_lines(text.splitlines())


def _line(row: RetentionFit) -> dict[str, object]:
    return {
        "topic": row.topic,
        "verdict": row.verdict,
        "longest lag": span(row.lag_high_ms),
        "kept now": span(row.retention_ms),
        "would fit": span(row.fits_ms),
        "frees": output.size_cell(row.freed_likely_bytes),
        "at least": output.size_cell(row.freed_low_bytes),
        "at most": output.size_cell(row.freed_high_bytes),
    }
