"""`lowwater preview PLAN`: what a plan would do; reads the file alone, asks no broker."""

from __future__ import annotations

import argparse

from dashboard.cli import files, output, plan_text
from dashboard.cli.parser import Verbs, add_verb
from dashboard.clock import utc_now


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "preview",
        "show what a plan would do, without asking any broker",
        description="Shows what a plan would do: targets, records, bytes, guards, who would lose\n"
        "what, and the sentence that apply wants confirmed. Changes nothing.",
        examples=("lowwater preview plan.json", "lowwater preview plan.json --json"),
    )
    parser.add_argument("plan", metavar="PLAN", help="a file written by lowwater plan")


def run(args: argparse.Namespace) -> int:
    """Print the preview. Raises PlanError, RefusedError PLAN_EDITED."""
    from dashboard.purge.plan import Plan
    from dashboard.purge.preview import preview

    plan = Plan.from_json_text(files.read_text(args.plan), args.plan)
    view = preview(plan, utc_now())
    output.emit(view, plan_text.describe(view), as_json=args.json)
    return 0
