"""`lowwater orphans`: folders that no broker needs; its action `sweep` sets them aside."""

from __future__ import annotations

import argparse

from dashboard.cli import orphans_sweep
from dashboard.cli.parser import Verbs, add_verb
from dashboard.errors import UsageError

_DESCRIPTION = """\
sweep    on a broker's host: moves folders that verdicts let go into a quarantine, after
         checking each one again on the disk and in the cluster. Tells only, until --apply"""


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "orphans",
        "folders on brokers' disks that the cluster no longer knows",
        description=_DESCRIPTION,
        examples=orphans_sweep.EXAMPLES,
    )
    parser.add_argument("action", nargs="?", choices=("sweep",))
    orphans_sweep.add_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Run the action. Raises UsageError without one."""
    if args.action == "sweep":
        return orphans_sweep.run(args)
    orphans_sweep.refuse_flags(args)
    raise UsageError("lowwater orphans needs an action", "Write: lowwater orphans sweep …")
