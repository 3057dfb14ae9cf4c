"""Policies in words: what one does, what it may not, and what its state means."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dashboard.core.words import duration
from dashboard.policies.service.switching import Serving, Standing
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.policies.policy import Policy, is_open, next_open
from dashboard.views import formats

START = "lowwater policies run"
STATES = {
    "off": "○ off",
    "held": "⏸ held: it waits for a person",
    "changed": "⚠ changed since it was switched on",
    "waiting": "… waiting for its time",
    "outside-window": "◷ outside its windows",
    "not-triggered": "◌ its trigger does not hold",
    "refused": "⊘ refused",
    "budget": "▣ its budget is used up",
    "busy": "▶ busy: a purge of its topics runs",
    "ran": "✔ ran",
    "nothing": "✔ nothing to purge",
}
STANDINGS: dict[Standing, str] = {
    "on": "● on", "off": "○ off", "changed": "⚠ off: changed since it was switched on",
    "held": "⏸ held: confirm it again",
}  # fmt: skip


def definition(policy: Policy) -> list[tuple[str, str]]:
    """What the policy does, as (what, how) in words."""
    return [
        ("Topics", _topics(policy)),
        ("Purges", _target(policy)),
        (
            "How often",
            f"a partition at most once every {duration(policy.min_purge_interval.total_seconds())}",
        ),
        *((("Costs", policy.caution),) if policy.caution else ()),
        ("At most", _budget(policy)),
        ("When", _windows(policy)),
        ("Only while", _trigger(policy)),
        ("Mode", policy.mode),
        *((("Archives", _archive(policy)),) if policy.archive else ()),
        *((f"Lifts {name}", why) for name, why in sorted(policy.overrides.items())),
        *(
            (f"Waives {name}", f"while no coordinator lists it: {why}")
            for name, why in sorted(policy.waive.items())
        ),
    ]


def _archive(policy: Policy) -> str:
    where = policy.archive if isinstance(policy.archive, str) else "the place of [archive]"
    return f"each record into {where}, proved, before any is deleted"


def _topics(policy: Policy) -> str:
    if policy.globs:
        return f"those called {', '.join(policy.globs)}" + _narrowed(policy)
    if policy.regex is not None:
        return f"those that match {policy.regex}" + _narrowed(policy)
    return "repartition topics of Kafka Streams (*-repartition)"


def _narrowed(policy: Policy) -> str:
    return ", of these the repartition topics" if policy.preset else ""


def _target(policy: Policy) -> str:
    if policy.target == "retention":
        return "what the topic's own retention allows to go, within segments too"
    if policy.target != "committed":
        kept = parse_target(policy.target)
        if kept.keep_bytes is not None:
            return f"all but the last {formats.size(kept.keep_bytes)} of each partition"
        return f"what is older than {kept.keep}"
    if policy.committed_by == "all":
        return "what every group has committed"
    owner = policy.owner or "the application that owns the topic"
    return f"what {owner} has committed, where no other group has committed less"


def _budget(policy: Policy) -> str:
    parts = []
    if policy.most_bytes_per_hour is not None:
        parts.append(formats.size(policy.most_bytes_per_hour))
    if policy.most_partitions_per_hour is not None:
        parts.append(formats.plural(policy.most_partitions_per_hour, "partition"))
    return f"{' and '.join(parts)} an hour" if parts else "no limit is set"


def _windows(policy: Policy) -> str:
    if not policy.windows:
        return "at any time"
    return f"{', '.join(window.text for window in policy.windows)} ({policy.timezone})"


def _trigger(policy: Policy) -> str:
    trigger = policy.trigger
    if trigger.share is not None:
        return f"some log dir is more than {trigger.share:.0%} full"
    if trigger.bytes_per_hour is not None:
        return f"its topics grow by more than {formats.size(trigger.bytes_per_hour)} an hour"
    return "always"


def service(found: Serving, now: datetime) -> str:
    """Who leads, or what is known where nobody does: the lease tells no more."""
    lease = found.lease
    if lease is not None and found.leads(now):
        since = formats.duration(now - lease.taken_at)
        return (
            f"A service runs on {lease.host} (process {lease.pid}) for {since}. Others that are "
            "started stand by and take over when it is gone."
        )
    return f"{_no_service(found, now)}{_in_flight(found)}"


def _no_service(found: Serving, now: datetime) -> str:
    last = found.last_sign
    where = "" if found.lease is None else f", on {found.lease.host},"
    sign = (
        "none ever did"
        if last is None
        else f"the last sign of one{where} was {formats.ago(last, now)}"
    )
    if not found.silent(now):
        return (
            f"No service holds the lease now; {sign}. A timer may run one "
            f"({START} --once): it purges while it runs."
        )
    if not found.idle(now):
        return f"No service holds the lease, and {sign}."
    return f"No service holds the lease, and {sign}: nothing is purged."


def _in_flight(found: Serving) -> str:
    if not found.open_runs:
        return ""
    runs = formats.plural(found.open_runs, "purge")
    are = "is" if found.open_runs == 1 else "are"
    return f" {runs} of policies {are} in flight: a worker may carry that on, and still send."


def next_run(
    policy: Policy, standing: Standing, found: Serving, told: datetime | None, now: datetime
) -> str:
    """When the next purge may start, or what it waits for."""
    if standing != "on":
        return "none: it is held" if standing == "held" else "none: it is off"
    if not found.leads(now):
        silent = "none: no service gives a sign of life"
        return silent if found.silent(now) else "when a service runs: none holds the lease now"
    if told is not None and told > now:
        return f"in {formats.duration(told - now)}"
    if not is_open(policy, now):
        return f"in {formats.duration(next_open(policy, now) - now)}"
    return "as soon as a partition is due"


def elsewhere(policies: Sequence[Policy]) -> str:
    """Which policies are for other clusters."""
    named = ", ".join(f"{policy.name} ({policy.cluster})" for policy in policies)
    return f"For other clusters, and not shown: {named}."
