"""Policies as they stand: what the journal knows of each, in tables and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.policies.service.switching import Serving, Standing, is_for, standing
from dashboard.purge.journal.alerts import AlertRow
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import Blocked, PolicyState, PolicyStatus, Use
from dashboard.purge.journal.rows import RunRow
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore
from dashboard.ui.components import markup
from dashboard.ui.components.markup import text
from dashboard.views import formats, policy_texts

# What the journal knows of each policy right now, read in one go for the page.

_WEEK, _HOUR = timedelta(days=7), timedelta(hours=1)
LAST_RUNS = 5


@dataclass(frozen=True, slots=True)
class PolicyView:
    """One policy: its switch, what the service said last and when, its runs of the past week."""

    policy: Policy
    standing: Standing
    switched: PolicyState | None
    told_at: datetime | None
    told: PolicyStatus | None
    runs: tuple[str, ...]

    @property
    def next_at(self) -> datetime | None:
        """When the service wants to look at it again, as it said."""
        return self.told.next_at if self.told else None

    @property
    def blocked(self) -> tuple[Blocked, ...]:
        """Partitions that it may not purge, as the service said."""
        return self.told.blocked if self.told else ()


def for_cluster(
    settings: Settings, cluster: ClusterStore
) -> tuple[tuple[Policy, ...], tuple[Policy, ...]]:
    """The policies of the settings that are for this cluster, and the others."""
    own = tuple(policy for policy in settings.policies if is_for(policy, cluster))
    return own, tuple(policy for policy in settings.policies if policy not in own)


def views(
    journal: Journal, cluster: ClusterStore, policies: Sequence[Policy], now: datetime
) -> tuple[PolicyView, ...]:
    """Each policy as the journal has it. Raises JournalError."""
    states = journal.policy_states(cluster.cluster_id)
    statuses = journal.policy_statuses(cluster.cluster_id)
    runs = journal.policy_runs(cluster.cluster_id, now - _WEEK)
    found = []
    for policy in policies:
        switched = states.get(policy.name)
        told_at, told = statuses.get(policy.name, (None, None))
        own = tuple(run for run, name in runs.items() if name == policy.name)
        found.append(PolicyView(policy, standing(policy, switched), switched, told_at, told, own))
    return tuple(found)


def last_runs(journal: Journal, view: PolicyView) -> list[RunRow]:
    """The newest runs of the past week, without their partitions."""
    return [journal.head(run) for run in view.runs[:LAST_RUNS]]


def used(journal: Journal, cluster: ClusterStore, view: PolicyView, now: datetime) -> Use:
    """What it started within the last hour: what its budgets are measured by."""
    return journal.policy_use(cluster.cluster_id, view.policy.name, now - _HOUR)


# Policies as HTML: all of them in a table, one with what it does and does now, what is blocked.

_BLOCKED = 15


def service_html(found: Serving, now: datetime, read_only: bool) -> str:
    """Whether a service runs, and what to type where none does."""
    running, said = found.leads(now), policy_texts.service(found, now)
    stopped = (
        "<p>⏸ Every purge is switched off (read-only): policies purge nothing and cannot be "
        "switched on.</p>"
        if read_only
        else ""
    )
    start = f"<b>Next:</b> start one, unless a timer does: <code>{policy_texts.START}</code>"
    follow = "" if running else f"<p>{start}</p>"
    kind = "" if running and not read_only else " warn"
    return (
        f'<div class="lw lw-state{kind}" role="status"><p>{"▶" if running else "○"} {text(said)}'
        f"</p>{follow}{stopped}</div>"
    )


def alerts_html(untold: Sequence[AlertRow], now: datetime) -> str:
    """Alerts that the webhook did not take, with its error; nothing while all goes well."""
    failed = [row for row in untold if row.error]
    if not failed:
        return ""
    first = failed[0]
    more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
    return (
        '<div class="lw lw-state warn" role="alert"><p>'
        f"✖ {formats.plural(len(failed), 'alert')} not told to the webhook: {text(first.error)}</p>"
        f"<p>{text(first.event.text)} (seen {formats.ago(first.first_seen_at, now)}, "
        f"{formats.plural(first.attempts, 'attempt')}){more}</p>"
        "<p><b>Next:</b> look at <code>lowwater policies check</code>, and at the webhook's "
        "receiver; the service goes on trying.</p></div>"
    )


def table_html(views: Sequence[PolicyView], found: Serving, now: datetime) -> str:
    """A line per policy: its switch, its state, next and last run."""
    heads = ("Policy", "Switch", "State", "Next run", "Last run")
    shown = markup.table(heads, (_row(view, found, now) for view in views))
    return f'<div class="lw">{shown}</div>'


def _row(view: PolicyView, found: Serving, now: datetime) -> tuple[str, ...]:
    return (
        f"<b>{text(view.policy.name)}</b>",
        text(policy_texts.STANDINGS[view.standing]),
        text(state(view)),
        next_html(view, found, now),
        markup.ago(when_run(view.runs[0]), now) if view.runs else "none this week",
    )


def state(view: PolicyView) -> str:
    """What the service said of it last, as long as that concerns the switch as it is."""
    if view.standing == "held":
        return policy_texts.STATES["held"]
    if view.standing != "on":
        return formats.MISSING
    if view.told is None:
        return "not looked at yet"
    return policy_texts.STATES.get(view.told.state, view.told.state)


def next_html(view: PolicyView, found: Serving, now: datetime) -> str:
    """The next run, its exact time on hover where there is one."""
    said = policy_texts.next_run(view.policy, view.standing, found, view.next_at, now)
    if view.next_at and said.startswith("in "):
        return markup.hover(said, markup.exact(view.next_at))
    return text(said)


def when_run(run_id: str) -> datetime:
    """When a run was queued: its id begins with that time, in UTC."""
    return datetime.strptime(run_id[:15] + "+0000", "%Y%m%dT%H%M%S%z")


def definition_html(view: PolicyView) -> str:
    """What it does, in words, and as which definition."""
    rows = "".join(
        f"<dt>{text(what)}</dt><dd>{text(how)}</dd>"
        for what, how in policy_texts.definition(view.policy)
    )
    sha = view.policy.definition_sha256
    return (
        f'<div class="lw lw-card"><h2>What it does</h2><dl>{rows}</dl>'
        f"<small>definition {markup.hover(sha[:12], sha)}, as the settings said at the last click "
        "here</small></div>"
    )


def now_html(view: PolicyView, found: Serving, use: Use, now: datetime) -> str:
    """Its switch, what the service said, and what is used of its budgets."""
    rows = [
        ("Switch", _switch(view, now)),
        ("State", _told(view, now)),
        ("Next run", next_html(view, found, now)),
        ("Last hour", _used(view, use)),
    ]
    told = view.told
    if view.standing == "on" and told is not None:
        count = formats.plural(told.partitions, "partition")
        rows.append(("It is for", f"{count} of {formats.plural(told.topics, 'topic')}"))
    body = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    return f'<div class="lw lw-card"><h2>Now</h2><dl>{body}</dl>{_errors(view)}</div>'


def _switch(view: PolicyView, now: datetime) -> str:
    word = text(policy_texts.STANDINGS[view.standing])
    if view.switched is None:
        return f"{word}; never switched on here"
    verb = "switched on" if view.switched.enabled else "switched off"
    return (
        f"{word}; {verb} {markup.ago(view.switched.at, now)} by {text(view.switched.who)} from "
        f"{text(view.switched.from_where)}"
    )


def _told(view: PolicyView, now: datetime) -> str:
    if view.standing == "held" and view.switched is not None and view.switched.hold is not None:
        return f"{state(view)}: {text(view.switched.hold.why)}"
    if view.standing != "on":
        return formats.MISSING
    if view.told is None:
        return "no service has looked at it yet"
    reason = f": {text(view.told.reason)}" if view.told.reason else ""
    return f"{text(state(view))}{reason} <small>said {markup.ago(view.told_at, now)}</small>"


def _used(view: PolicyView, use: Use) -> str:
    policy = view.policy
    size = markup.size(use.bytes)
    if policy.most_bytes_per_hour is not None:
        size += f" of {markup.size(policy.most_bytes_per_hour)}"
    count = formats.plural(use.partitions, "partition")
    if policy.most_partitions_per_hour is not None:
        count = f"{formats.number(use.partitions)} of " + formats.plural(
            policy.most_partitions_per_hour, "partition"
        )
    unknown = f", {formats.plural(use.unmeasured, 'partition')} not measured"
    return f"{count} started, at most {size}{unknown * bool(use.unmeasured)}"


def _errors(view: PolicyView) -> str:
    if view.standing != "on" or view.told is None:
        return ""
    return "".join(
        f"<p>⚠ {text(error.application or view.policy.name)}: {text(error.reason)} "
        f"({text(error.code)})</p>"
        for error in view.told.errors[:3]
    )


def blocked_html(view: PolicyView) -> str:
    """What it may not purge: which guard, why, and what lifts it; "" without any.

    Partitions of a topic that are held back for the same reason share a line.
    """
    if not view.blocked or view.standing != "on":
        return ""
    alike = _alike(view)
    rows = (
        (_place(topic, partitions), f"<code>{text(name)}</code>", text(reason), text(lift))
        for (topic, name, reason, lift), partitions in list(alike.items())[:_BLOCKED]
    )
    shown = markup.table(("Partitions", "Guard", "Why", "What lifts it"), rows)
    rest = len(alike) - _BLOCKED
    more = f"<small>and {formats.plural(rest, 'reason')} more</small>" if rest > 0 else ""
    return (
        '<div class="lw"><h2>Held back by guards <small>left out, the others are purged; an '
        "--override is for a plan by hand</small></h2>"
        f"{shown}{more}</div>"
    )


def _alike(view: PolicyView) -> dict[tuple[str, str, str, str], list[int]]:
    """Topic, guard, reason and lift to the partitions that they are said of."""
    found: dict[tuple[str, str, str, str], list[int]] = {}
    for row in view.blocked:
        for guard in row.guards:
            key = (row.topic, guard.name, guard.reason, guard.lift)
            found.setdefault(key, []).append(row.partition)
    return found


def _place(topic: str, partitions: Sequence[int]) -> str:
    """`orders-3`, or the topic with how many of its partitions, all of them on hover."""
    if len(partitions) == 1:
        return text(f"{topic}-{partitions[0]}")
    every = ", ".join(map(str, sorted(partitions)))
    count = markup.hover(formats.plural(len(partitions), "partition"), every)
    return f"{text(topic)}<br><small>{count}</small>"
