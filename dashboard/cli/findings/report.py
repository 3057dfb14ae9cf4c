"""`lowwater report`: the newest findings as a page to forward, or as files for other programs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.clock import utc_now
from dashboard.core.errors import UsageError

if TYPE_CHECKING:
    from dashboard.purge.plan.plan import Plan
    from dashboard.reports.parts import Report
    from dashboard.reports.source import Source

FORMATS = ("html", "pdf", "csv", "parquet", "offsets-json")
_PAGES = ("html", "pdf")
_TABLES = ("csv", "parquet")


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "report",
        description="Writes the newest findings to PATH, which is replaced as a whole. html and\n"
        "pdf are the storage report: what can be given back, who holds the rest, disks, orphans,\n"
        "slow followers, purges, with plots; the page needs no network. csv and parquet hold\n"
        "every findings table, a file each, in the folder PATH, or in one archive when PATH ends\n"
        "with .zip. offsets-json holds the free targets of --plan for Kafka's delete-records\n"
        "tool. Reads no Kafka and starts no Spark.",
        examples=(
            "lowwater report --format html --out storage.html",
            "lowwater report --format pdf --out storage.pdf",
            "lowwater report --format csv --out findings.zip",
            "lowwater report --format parquet --out findings",
            "lowwater report --format offsets-json --plan plan.json --out offsets.json",
        ),
    )
    parser.add_argument("--format", required=True, choices=FORMATS, help="what is written")
    parser.add_argument("--out", required=True, metavar="PATH", help="where it is written")
    parser.add_argument(
        "--plan", metavar="FILE", help="a plan: for offsets-json, or told in html and pdf"
    )


def run(args: argparse.Namespace) -> int:
    """Write the file or folder.

    Raises StoreError NO_ANALYSIS, UsageError, PlanError, JournalError.
    """
    if args.format in _TABLES and not args.out.endswith(".zip"):
        from dashboard.reports import source as findings_files

        output.check_folder(args.out, findings_files.names(args.format))
    else:
        output.check_writable(args.out)
    if args.format == "offsets-json":
        output.check_apart("--out", args.out, "--plan", args.plan)
        output.forget(args.out)  # targets of an earlier plan: this one may be refused
    plan = _plan(args)
    if args.format == "offsets-json":
        made, what = _offsets(args, plan)
    else:
        made, what = _page(args, plan) if args.format in _PAGES else _tables(args)
    value = {"format": args.format, "out": args.out, **made}
    output.emit(value, f"{what} written to {args.out}", as_json=args.json)
    return 0


def _plan(args: argparse.Namespace) -> Plan | None:
    from dashboard.purge.plan.plan import Plan

    if args.plan and args.format in _TABLES:
        raise UsageError(
            f"--format {args.format} holds findings, no plan",
            "Leave --plan out, or choose --format html, pdf or offsets-json.",
        )
    if not args.plan and args.format == "offsets-json":
        raise UsageError(
            "offsets-json holds a plan's targets, and no plan is named",
            "Write one with lowwater plan, and give --plan plan.json.",
            code="PLAN_NOT_NAMED",
        )
    return Plan.from_json_text(output.read_text(args.plan), args.plan) if args.plan else None


# What was made, for JSON and in words.
Made = tuple[dict[str, object], str]


def _offsets(args: argparse.Namespace, plan: Plan | None) -> Made:
    """Not of an expired plan, as `apply`: nothing looks again before Kafka's tool deletes."""
    from dashboard.purge.jobs import queue_refusals

    assert plan is not None
    settings = context.read_settings(args)
    with context.open_journal(settings) as journal:
        text = queue_refusals.offsets_json(settings, journal, plan, utc_now())
    output.write_text(args.out, text)
    free = len(plan.free_partitions)
    value = {"plan_id": plan.plan_id, "cluster_id": plan.cluster_id, "partitions": free}
    return value, f"{free} partitions of plan {plan.plan_id}"


def _source(args: argparse.Namespace, plan: Plan | None = None) -> Source:
    from dashboard.purge.evidence import standards
    from dashboard.reports.source import open_source

    settings, cluster = context.open_cluster(args)
    runs, begins = [], None
    if context.journal_exists(settings):  # else nothing was ever purged from here
        with context.open_journal(settings) as journal:
            runs, begins = journal.runs(cluster.cluster_id), journal.begins()
    now = utc_now()

    def ask(topics: Sequence[str]) -> Mapping[str, str]:
        return standards.said(settings, cluster, topics, now)

    price = settings.price.of(cluster.name, cluster.cluster_id)
    return open_source(
        cluster, runs, now, settings.every, plan=plan, begins=begins, ask=ask, price=price
    )


def _page(args: argparse.Namespace, plan: Plan | None) -> Made:
    from dashboard.reports.storage import storage_report

    source = _source(args, plan)
    _check_plan(plan, source)
    body = _body(args.format, storage_report(source))
    output.write_bytes(args.out, body)
    value: dict[str, object] = {**source.about, "bytes": len(body)}
    return value, f"the storage report of analysis {source.analysis.id}"


def _body(kind: str, report: Report) -> bytes:
    if kind == "pdf":
        from dashboard.reports.page import pdf

        return pdf(report)
    from dashboard.reports.page import html_page

    return html_page(report).encode()


def _check_plan(plan: Plan | None, source: Source) -> None:
    if plan is not None and plan.cluster_id != source.cluster_id:
        raise UsageError(
            f"the plan is of cluster {plan.cluster_id}, the findings of {source.cluster_id}",
            "Name a plan of this cluster, or the plan's cluster with --cluster.",
            code="CLUSTER_MISMATCH",
        )


def _tables(args: argparse.Namespace) -> Made:
    from dashboard.reports import source as findings_files

    source = _source(args)
    rows: dict[str, int] = {}

    def read(name: str) -> Any:
        table = source.read(name)
        rows[name] = table.num_rows
        return table

    found = findings_files.files(args.format, read, source.about)
    if args.out.endswith(".zip"):
        output.write_bytes(args.out, findings_files.as_zip(found))
    else:
        output.write_folder(args.out, found)
    what = f"{len(rows)} tables with {sum(rows.values())} rows of analysis {source.analysis.id}"
    return {**source.about, "tables": rows}, what
