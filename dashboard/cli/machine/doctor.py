"""`lowwater doctor`: is all there, on this machine and in the cluster, and what is lost if not."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_connection, add_verb
from dashboard.core.errors import ClusterError, LowwaterError, SettingsError, StoreError
from dashboard.core.visible import in_lines
from dashboard.doctor.doctor import (
    Check,
    Held,
    held_rights,
    local_checks,
    lost_features,
    rights_check,
    to_json,
)
from dashboard.domain.rights import ANYBODY, RIGHTS
from dashboard.settings.settings import Settings

_MARKS = {True: "ok", False: "MISSING", None: "-"}


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "doctor",
        description="Checks Java, packages, folders and disk space here; brokers, versions and\n"
        "rights in the cluster; and says what each missing one costs. Changes nothing.\n"
        "Exit 1 when something is missing, 4 when the cluster cannot be reached.",
        examples=(
            "lowwater doctor --bootstrap-server localhost:9092",
            "lowwater doctor --cluster prod-eu --json",
        ),
    )
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    """Print all checks; 0 when none failed, 1 when one did, 4 without an answer of the cluster."""
    settings = context.read_settings(args)
    found = _cluster(args, settings)
    checks = [*local_checks(settings, settings.data), *found.checks]
    failed = any(check.ok is False for check in checks)
    told = to_json(found.rights, found.principal)
    text = in_lines([_text(checks), "", _rights_text(found.rights)])
    output.emit({"checks": [c.to_json() for c in checks], **told}, text, as_json=args.json)
    return int(failed) if found.reached else ClusterError.exit_code


@dataclass(frozen=True, slots=True)
class _Found:
    """The cluster's checks and our rights in it; `reached` False: it was named, and is silent."""

    checks: list[Check]
    rights: tuple[Held, ...] | None = None
    principal: str = ANYBODY
    reached: bool = True


def _cluster(args: argparse.Namespace, settings: Settings) -> _Found:
    target = _target(args, settings)
    if target is None:
        step = "Give --bootstrap-server HOST:PORT, or write [clusters.NAME] in lowwater.toml."
        return _Found([Check("connection", None, "no cluster is named", next=step)])
    from dashboard.cluster.live import connect
    from dashboard.doctor.cluster import cluster_checks

    output.progress(f"asking {target.bootstrap_servers} …")
    try:
        with connect(target.client, settings.broker_timeout) as live:
            principal = live.principal() or ANYBODY
            reached = Check("connection", True, f"connected to {target.bootstrap_servers}")
            checks = [reached, *cluster_checks(live)]
            try:
                held = held_rights(live)
            except ClusterError as error:
                unknown = Check("rights", None, error.message, next=error.next_step)
                return _Found([*checks, unknown], None, principal)
            return _Found([*checks, rights_check(held, principal)], held, principal)
    except ClusterError as error:
        return _Found([_failed(error)], reached=False)


def _target(args: argparse.Namespace, settings: Settings) -> context.Target | None:
    """What the flags or settings name, else what the data folder remembers, else None."""
    try:
        return context.target(args, settings)
    except LowwaterError as error:
        if error.code not in ("CLUSTER_NOT_NAMED", "CLUSTER_NOT_FOUND"):
            raise
        try:
            known = context.known_target(args, settings)
        except (StoreError, SettingsError):
            known = None
        if known is None and args.cluster:
            raise
        return known


def _failed(error: LowwaterError) -> Check:
    costs = "nothing can be read, planned or purged"
    return Check("connection", False, f"{error.code}: {error.message}", costs, error.next_step)


def _text(checks: Sequence[Check]) -> str:
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{_MARKS[check.ok]:8}{check.name.ljust(width)}  {check.detail}")
        lines += [f"{'':8}{'':{width}}  costs: {check.costs}"] if check.costs else []
        lines += [f"{'':8}{'':{width}}  next:  {check.next}"] if check.next else []
    return in_lines(lines)


def _rights_text(held: Sequence[Held] | None) -> str:
    """The table of rights; with a cluster also which we hold, and what is lost."""
    said = {h.right: h.said for h in held or ()}
    rows = [
        {"right": r.name, "for": r.role, "allows": r.allows, "ours": said.get(r)} for r in RIGHTS
    ]
    columns = ("right", "for", "ours", "allows") if held else ("right", "for", "allows")
    lines: list[str] = [output.table(rows, columns)]
    for feature, lacking in lost_features(held or ()):
        lacks = ", ".join(h.right.name for h in lacking)
        lines.append(f"lost: {feature.name} (lacks {lacks}): {feature.without}")
    lines.append("docs/acls.md has them ready to paste.")
    return in_lines(lines)
