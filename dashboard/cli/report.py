"""`lowwater report`: the newest findings as files to forward, read or load elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, files, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from dashboard.purge.plan import Plan

FORMATS = ("csv", "parquet", "offsets-json")
_TABLES = ("csv", "parquet")


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "report",
        "write the newest findings to files",
        description="Writes the newest findings to PATH, which is replaced as a whole. csv and\n"
        "parquet hold every findings table, a file each, in the folder PATH, or in one archive\n"
        "when PATH ends with .zip. offsets-json holds the free targets of --plan for Kafka's\n"
        "delete-records tool. Reads no Kafka and starts no Spark.",
        examples=(
            "lowwater report --format csv --out findings.zip",
            "lowwater report --format parquet --out findings",
            "lowwater report --format offsets-json --plan plan.json --out offsets.json",
        ),
    )
    parser.add_argument("--format", required=True, choices=FORMATS, help="what is written")
    parser.add_argument("--out", required=True, metavar="PATH", help="where it is written")
    parser.add_argument("--plan", metavar="FILE", help="a plan, for offsets-json")


def run(args: argparse.Namespace) -> int:
    """Write the file or folder. Raises StoreError NO_ANALYSIS, UsageError, PlanError."""
    if args.format in _TABLES and not args.out.endswith(".zip"):
        from dashboard.reports import findings_files

        files.check_folder(args.out, findings_files.names(args.format))
    else:
        files.check_writable(args.out)
    plan = _plan(args)
    value = _offsets(args, plan) if args.format == "offsets-json" else _tables(args)
    output.emit({"format": args.format, "out": args.out, **value}, _text(args, value),
                as_json=args.json)  # fmt: skip
    return 0


def _plan(args: argparse.Namespace) -> Plan | None:
    from dashboard.purge.plan import Plan

    if args.plan and args.format in _TABLES:
        raise UsageError(
            f"--format {args.format} holds findings, no plan",
            "Leave --plan out, or choose --format offsets-json.",
        )
    if not args.plan and args.format == "offsets-json":
        raise UsageError(
            "offsets-json holds a plan's targets, and no plan is named",
            "Write one with lowwater plan, and give --plan plan.json.",
            code="PLAN_NOT_NAMED",
        )
    return Plan.from_json_text(files.read_text(args.plan), args.plan) if args.plan else None


def _offsets(args: argparse.Namespace, plan: Plan | None) -> dict[str, Any]:
    assert plan is not None
    free = len(plan.free_partitions)
    if not free:
        raise RefusedError(
            f"guards block all {len(plan.partitions)} partitions of {args.plan}",
            f"See what lifts them: lowwater preview {args.plan}",
            code="NOTHING_FREE",
        )
    files.write_text(args.out, plan.offsets_json())
    return {"plan_id": plan.plan_id, "cluster_id": plan.cluster_id, "partitions": free}


def _tables(args: argparse.Namespace) -> dict[str, Any]:
    from dashboard.reports import findings_files

    _, cluster = context.open_cluster(args)
    analysis_id = cluster.latest_analysis()
    manifest = cluster.manifest("findings", analysis_id)
    about = {
        "cluster_id": cluster.cluster_id,
        "cluster_name": cluster.name,
        "analysis_id": analysis_id,
        "snapshot_id": manifest.details.get("snapshot_id"),
    }
    rows: dict[str, int] = {}

    def read(name: str) -> Any:
        table = cluster.read("findings", analysis_id, name)
        rows[name] = table.num_rows
        return table

    found = findings_files.files(args.format, read, about)
    if args.out.endswith(".zip"):
        files.write_bytes(args.out, findings_files.as_zip(found))
    else:
        files.write_folder(args.out, found)
    return {**about, "tables": rows}


def _text(args: argparse.Namespace, value: Mapping[str, Any]) -> str:
    if args.format == "offsets-json":
        return f"{value['partitions']} partitions of plan {value['plan_id']} written to {args.out}"
    rows = sum(value["tables"].values())
    return (
        f"{len(value['tables'])} tables with {rows} rows of analysis {value['analysis_id']} "
        f"written to {args.out}"
    )
