"""`lowwater analyze`: runs the Spark job as a child process and relays its answer."""

from __future__ import annotations

import argparse
from typing import Any

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core import processes
from dashboard.core.visible import in_lines


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "analyze",
        description="Turns the newest snapshot into findings with Spark: what can be given back,\n"
        "who holds the rest. Needs Java 17 or newer.",
        examples=("lowwater analyze --data ./data", "lowwater analyze --full --json"),
    )
    parser.add_argument(
        "--full", action="store_true", help="read the whole history again, not what is new"
    )


def run(args: argparse.Namespace) -> int:
    """Run `python -m analytics` and print its object. Raises StoreError, AnalysisError."""
    settings, cluster = context.open_cluster(args)
    cluster.latest_snapshot()
    words = ["--data", settings.data, "--cluster", cluster.cluster_id]
    words += ["--full"] * args.full
    answer = processes.answered(words, output.progress, "analysis_id")
    output.emit(answer, _text(answer), as_json=args.json)
    return 0


def _text(answer: dict[str, Any]) -> str:
    tables = ", ".join(f"{name} {rows}" for name, rows in sorted(answer["tables"].items()))
    lines = [
        f"analysis {answer['analysis_id']} of snapshot {answer['snapshot_id']} "
        f"in {answer['seconds']:.1f} s",
        f"rows: {tables}",
    ]
    if not answer.get("published", True):
        lines.append(
            "not shown: the findings that are shown are of a newer snapshot, which is no longer "
            "kept or came meanwhile. Collect, then analyze again"
        )
    return in_lines(lines)
