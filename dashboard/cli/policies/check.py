"""`lowwater policies check`: what policies would purge now, and what they would have last week."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.policies.run import Opener, at_once, site_of
from dashboard.core.clock import format_time
from dashboard.core.errors import AnalysisError, RefusedError, StoreError
from dashboard.core.visible import in_lines, in_quotes
from dashboard.core.words import plural

if TYPE_CHECKING:
    from dashboard.policies.checking import Checked
    from dashboard.policies.service.outcome import Outcome
    from dashboard.policies.service.purging import Site
    from dashboard.policies.service.switching import Serving
    from dashboard.policies.simulate import Simulation
    from dashboard.purge.journal.alerts import AlertRow
    from dashboard.settings.policies.policy import Policy
    from dashboard.settings.settings import Settings
    from dashboard.store.snapshots import ClusterStore


def run(
    args: argparse.Namespace,
    settings: Settings,
    cluster: ClusterStore,
    policies: tuple[Policy, ...],
) -> int:
    """Print what each policy would do. 0; 3 when each that has anything to purge is refused.

    Raises SettingsError, StoreError, ClusterError, JournalError. Nothing is queued or sent.
    """
    from dashboard.policies.checking import check
    from dashboard.policies.service.switching import on_and_undefined, serving
    from dashboard.purge.jobs.queue_refusals import stopped

    with context.open_journal(settings) as journal:
        site = site_of(args, settings, cluster, journal)
        open_live = Opener(args, site)
        output.progress(f"reading {cluster.name} …")
        with open_live() as live:
            found = check(site, live, policies)
        known = serving(journal, cluster.cluster_id, settings.purge.most_service_silence)
        states = journal.policy_states(cluster.cluster_id)
        undefined = on_and_undefined(states.values(), settings.policies, cluster)
        read_only = stopped(settings, journal) is not None
        waiting = journal.untold_alerts(cluster.cluster_id)
        weeks = [_week(site, each) for each in found]
        value = {
            "cluster": cluster.name,
            "cluster_id": cluster.cluster_id,
            "at": site.now(),
            "leader": _leader(known, site.now()),
            "last_sign": known.last_sign,
            "open_runs": known.open_runs,
            "read_only": read_only,
            "alerts_waiting": [_waiting(row) for row in waiting],
            "on_and_undefined": [state.name for state in undefined],
            "policies": [
                {**each.to_json(cluster.called), "past_week": week and week.to_json()}
                for each, week in zip(found, weeks, strict=True)
            ],
        }
        first = f"{_service(known, site.now())}{'; read_only is on' if read_only else ''}"
        others = [*(_not_told(row) for row in waiting), *(_undefined(s.name) for s in undefined)]
        text = _text(cluster.called, [first, *others], zip(found, weeks, strict=True))
    output.emit(value, text, as_json=args.json)
    return _exit_code(found)


def _text(
    name: str, service: Sequence[str], found: Iterable[tuple[Checked, Simulation | None]]
) -> str:
    lines = [f"{name}: {service[0]}", *service[1:]]
    for checked, week in found:
        lines += ["", *_policy(checked, week, name)]
    return in_lines(lines)


def _exit_code(found: Iterable[Checked]) -> int:
    refused = [each.all_refused for each in found if _has_work(each)]
    return RefusedError.exit_code if refused and all(refused) else 0


def _has_work(checked: Checked) -> bool:
    return any(outcome.state in ("ran", "refused") for outcome in checked.outcomes)


def _week(site: Site, checked: Checked) -> Simulation | None:
    """What it would have done in the past week; None where that cannot be found out."""
    from dashboard.policies.apart import past_week

    try:
        return past_week(site.store, site.settings, checked.policy, site.now(), output.progress)
    except (StoreError, AnalysisError) as error:
        output.progress(f"the past week of {checked.policy.name} is not known: {error.message}")
        return None


def _leader(found: Serving, now: datetime) -> dict[str, object] | None:
    lease = found.lease
    if lease is None or not found.leads(now):
        return None
    return {"host": lease.host, "pid": lease.pid, "since": lease.taken_at}


def _service(found: Serving, now: datetime) -> str:
    """Who leads, or what is known where nobody does: a timer may run the next one."""
    if found.lease is not None and found.leads(now):
        return f"process {found.lease.pid} on {found.lease.host} leads"
    last = found.last_sign
    sign = f"the last sign of one was at {format_time(last)}" if last else "none gave a sign yet"
    flies = f"; {plural(found.open_runs, 'purge')} of policies in flight" if found.open_runs else ""
    return f"no service holds the lease now, {sign}; a timer may run one{flies}"


def _waiting(row: AlertRow) -> dict[str, object]:
    return {
        "alert": row.event.kind,
        "text": row.event.text,
        "since": row.first_seen_at,
        "attempts": row.attempts,
        "failed": row.error,
    }


def _not_told(row: AlertRow) -> str:
    failed = row.error or "the service sends it"
    return f"not told yet: {row.event.kind}: {row.event.text} ({failed})"


def _undefined(name: str) -> str:
    said = f"{name}: on, and the settings do not define it for this cluster"
    return f"{said}: lowwater policies off {name}"


def _policy(checked: Checked, week: Simulation | None, cluster_name: str) -> list[str]:
    policy, on = checked.policy, checked.standing == "on"
    told = on or checked.standing == "held"
    held = f", held back: {checked.held_by}" if told and checked.held_by else ""
    lines = [
        f"{policy.name}: {checked.standing}{held}",
        f"  {checked.topics} topics, {checked.partitions} partitions, target {policy.target}, "
        f"at least {policy.min_purge_interval.total_seconds():g} s apart",
    ]
    lines += [f"  caution: {policy.caution}"] if policy.caution else []
    lines += [
        f"  waives {group_id} while no coordinator lists it: {reason}"
        for group_id, reason in sorted(policy.waive.items())
    ]
    nobody = "no known owner" if policy.committed_by == "owner" else "all groups"
    lines += [line for each in checked.outcomes for line in _outcome(each, nobody)]
    if not checked.outcomes:
        lines.append("  no topic matches that we may describe")
    if week is not None:
        lines.append(_past(week))
    if not on:
        lines.append(
            f"  switch it on: lowwater policies on {policy.name} "
            f"--confirm {in_quotes(policy.confirmation(cluster_name))}"
        )
    return lines


def _outcome(each: Outcome, nobody: str) -> list[str]:
    state = "would-run" if each.state == "ran" else each.state
    guarded = state == "refused" and each.blocked
    reason = "no partition is free of guards" if guarded else each.reason
    size = f", {at_once(each.bytes_at_once, each.bytes_at_once_high)}" if each.partitions else ""
    lines = [f"  {each.application or nobody}: {state}: {reason}{size}"]
    if guarded and each.not_waived:
        names = ", ".join(each.not_waived)
        lines.append(f"    not waived, since a coordinator lists it: {names}")
    for blocked in each.first_blocked:
        for guard in blocked.guards:
            lines.append(f"    {blocked.topic}-{blocked.partition}: {guard.name}: {guard.reason}")
            lines.append(f"      a plan by hand lifts it: {guard.lift}")
    return lines


def _past(week: Simulation) -> str:
    text = f"  since {output.cell(week.from_)}: {week.purges} purges, {output.size(week.bytes)}"
    return in_lines([text, *(f"    {note}" for note in week.notes)])
