"""`lowwater policies doctor`: repartition topics that are purged badly, and what to set instead."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Parser
from dashboard.core.clock import parse_duration, utc_now
from dashboard.core.errors import UsageError
from dashboard.core.visible import in_lines, in_paragraphs

if TYPE_CHECKING:
    from dashboard.policies.doctor.diagnosis import Diagnosis
    from dashboard.settings.settings import Settings
    from dashboard.store.snapshots import ClusterStore


def add_flags(parser: Parser) -> None:
    """The flags that are the doctor's alone."""
    parser.add_argument(
        "--window", metavar="7d", help="with doctor: how old a snapshot may be that it looks at"
    )


def refuse_flags(args: argparse.Namespace) -> None:
    """Raises UsageError when the doctor's flags stand with another action."""
    if args.window is not None and args.action != "doctor":
        raise UsageError(f"lowwater policies {args.action} takes no --window", "Leave it out.")


def run(args: argparse.Namespace, settings: Settings, cluster: ClusterStore) -> int:
    """Print what is wrong with repartition topics; 0 also where something is. Asks no broker.

    Raises StoreError, JournalError, UsageError DURATION_INVALID.
    """
    from dashboard.policies.doctor.diagnosis import KINDS, Rules
    from dashboard.policies.doctor.repartition import diagnose

    rules = Rules()
    if args.window is not None:
        rules = replace(rules, window=parse_duration(args.window))
    with context.open_journal(settings) as journal:
        found = diagnose(cluster, journal, settings, utc_now(), rules)
    counts = Counter(diagnosis.kind for diagnosis in found)
    value: dict[str, Any] = {
        "cluster": cluster.name,
        "cluster_id": cluster.cluster_id,
        "topics": len({diagnosis.topic for diagnosis in found}),
        "kinds": {kind: counts[kind] for kind in KINDS},
        "rows": [diagnosis.to_json() for diagnosis in found],
    }
    output.emit(value, _text(found), as_json=args.json)
    return 0


def _text(found: Sequence[Diagnosis]) -> str:
    """A paragraph for each problem, then what is not known; healthy ones are counted."""
    from dashboard.policies.doctor import said
    from dashboard.policies.doctor.diagnosis import UNKNOWN

    if not found:
        return said.NO_TOPIC
    problems = [said.paragraph(diagnosis) for diagnosis in found if diagnosis.problem]
    unknown = [in_lines([d.topic, f"  {d.sentence}"]) for d in found if d.kind == UNKNOWN]
    return in_paragraphs([said.summary(found), *problems, *unknown])
