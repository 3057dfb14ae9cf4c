"""`lowwater doctor`: is all there, on this machine and in the cluster, and what is lost if not."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_connection, add_verb
from dashboard.doctor import Check, local_checks
from dashboard.errors import ClusterError, LowwaterError
from dashboard.settings import Settings

_MARKS = {True: "ok", False: "MISSING", None: "-"}


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "doctor",
        "check Java, folders, the cluster and our rights in it",
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
    checks = local_checks(settings, settings.data)
    remote, reached = _cluster(args, settings)
    checks += remote
    code = ClusterError.exit_code if not reached else int(any(c.ok is False for c in checks))
    value = {"checks": [check.to_json() for check in checks]}
    output.emit(value, _text(checks), as_json=args.json)
    return code


def _cluster(args: argparse.Namespace, settings: Settings) -> tuple[list[Check], bool]:
    """The cluster's checks, and False when it was named but cannot be reached."""
    target = _target(args, settings)
    if target is None:
        step = "Give --bootstrap-server HOST:PORT, or write [clusters.NAME] in lowwater.toml."
        return [Check("connection", None, "no cluster is named", next=step)], True
    from dashboard.cluster.live import connect
    from dashboard.doctor_cluster import cluster_checks

    output.progress(f"asking {target.bootstrap_servers} …")
    try:
        with connect(target.client, settings.broker_timeout) as live:
            reached = Check("connection", True, f"connected to {target.bootstrap_servers}")
            return [reached, *cluster_checks(live)], True
    except ClusterError as error:
        return [_failed(error)], False


def _target(args: argparse.Namespace, settings: Settings) -> context.Target | None:
    """What the flags or settings name, else what the data folder remembers, else None."""
    try:
        return context.target(args, settings)
    except LowwaterError as error:
        if error.code not in ("CLUSTER_NOT_NAMED", "CLUSTER_NOT_FOUND"):
            raise
        known = context.known_target(args, settings)
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
    return "\n".join(lines)
