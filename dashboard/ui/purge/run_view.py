"""A run on the page: states with counts, partitions, followers behind, receipt, and afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import pandas as pd
import streamlit as st

from dashboard.broker_metrics.sources import Sources, sources_of
from dashboard.core.clock import utc_now
from dashboard.core.words import first_letter_up
from dashboard.domain.model import BrokerMetric
from dashboard.purge.forecast import waits
from dashboard.purge.journal.rows import PartitionRow, RunRow, RunView
from dashboard.purge.journal.tables import watching
from dashboard.purge.plan.moves import MoveRow
from dashboard.purge.receipt.alerts import (
    arrived_said,
    behind_said,
    followers_said,
    reverted_said,
    reverted_topics,
)
from dashboard.purge.receipt.model import Receipt
from dashboard.purge.receipt.receipt import on_disk_said
from dashboard.settings.sections import Price, beside
from dashboard.ui.components import grid, markup
from dashboard.ui.components.glossary import term
from dashboard.ui.components.markup import text
from dashboard.ui.purge.runs import PARTITION_WORDS, RUN_WORDS
from dashboard.ui.session import context, routes
from dashboard.ui.session.context import Screen
from dashboard.views import delete_requests, formats
from dashboard.views.archive_texts import archive_said

# A run on the page: states with counts, partitions, followers behind, and the receipt.

_ORDER = ("sent", "unknown", "reverted", "not_done", "leader_done", "pending", "done")


def show(view: RunView, *, acts: bool) -> None:
    """Everything that the journal knows of this run right now; `acts`: with what plans it again."""
    now = utc_now()
    alert(view.partitions, acts=acts)
    st.html(head_html(view.run, now) + counts_html(view))
    markup.draw(behind_html(view, now) + moves_html(view.moves) + archive_html(view.run))
    if view.run.error:
        st.html(error_html(view.run.error))
    if view.run.outcome == "failed" or (view.run.state == "refused" and too_old(view)):
        failed(view, acts=acts)
    else:
        markup.draw(reasons_html(view))
        show_receipt(view, now)
    table(view)


def show_receipt(view: RunView, now: datetime) -> None:
    """The receipt, or why a closed run has none; nothing while it is too early for one."""
    run = view.run
    if run.receipt:
        over = run.watched_until is not None and now >= run.watched_until
        price = context.settings().price.of(run.cluster_name, run.cluster_id)
        st.html(receipt_html(run.receipt, view.partitions, price, over=over))
    elif not run.open and run.state in ("done", "partial"):
        st.caption(no_receipt(run, now))


def head_html(run: RunRow, now: datetime) -> str:
    """Who, when, how, and the state in words."""
    wish = f", {run.wish} asked for" if run.wish else ""
    by = f"{text(run.who)} from {text(run.from_where)}"
    by += f", approved by {text(run.approved_by)}" if run.approved_by else ""
    took = run.closed_at - run.queued_at if run.closed_at else now - run.queued_at
    return (
        f'<div class="lw"><h2>{RUN_WORDS[run.outcome]}{text(wish)} · run {text(run.run_id)}</h2>'
        f"<small>{text(run.mode)} · plan {text(run.plan_id)} · queued "
        f"{markup.ago(run.queued_at, now)} by {by} · "
        f"{'took' if run.closed_at else 'for'} {formats.duration(took)}</small></div>"
    )


def archive_html(run: RunRow) -> str:
    """Where the records are kept, and how far that is; nothing where none are."""
    said = archive_said(run)
    return (
        f'<div class="lw"><p role="status">{text(first_letter_up(said))}.</p></div>' if said else ""
    )


def counts_html(view: RunView) -> str:
    """Partitions by state, the open and troubled ones first."""
    cells = "".join(
        f"<div><b>{formats.plural(view.counts[state], 'partition')}</b>"
        f"<small>{markup.hover(*PARTITION_WORDS[state])}</small></div>"
        for state in _ORDER
        if state in view.counts
    )
    return f'<div class="lw"><div class="lw-counts">{cells}</div></div>'


def error_html(error: Mapping[str, str]) -> str:
    """Why the run was refused, or ended early."""
    code = f" ({text(error['code'])})" if error.get("code") else ""
    follow = f"<p><b>Next:</b> {text(error['next'])}</p>" if error.get("next") else ""
    return (
        f'<div class="lw lw-state warn" role="status"><p>{text(error.get("message", ""))}{code}'
        f"</p>{follow}</div>"
    )


def receipt_html(
    receipt: Receipt,
    partitions: Iterable[PartitionRow],
    price: Price | None = None,
    *,
    over: bool = False,
) -> str:
    """Predicted against freed, by broker, and by its `price`; the cause of a gap; whether more may
    still come, or watching is `over`.
    """
    said = term("Receipt", "receipt")
    if not receipt.final:
        said += " so far; "
        said += "not final: watching ended" if over else "final when the brokers have settled"
    cells = "".join(
        f"<div><b>{markup.size(size)}</b><small>{name}</small></div>"
        for size, name in (
            (receipt.predicted_bytes, "predicted"),
            (receipt.freed_bytes, f"freed{text(beside(price, receipt.freed_bytes))}"),
        )
    )
    cells += "".join(
        f"<div><b>{markup.size(freed)}</b><small>on broker {broker}</small></div>"
        for broker, freed in sorted(_freed_by_broker(receipt).items())
    )
    notes = "".join(f"<p>{line}</p>" for line in _notes(receipt, partitions))
    return (
        f'<div class="lw lw-state" role="status"><h2>{"✔" if receipt.final else "…"} {said}</h2>'
        f'<div class="lw-counts">{cells}</div>{notes}</div>'
    )


def _freed_by_broker(receipt: Receipt) -> Counter[int]:
    freed: Counter[int] = Counter()
    for replica in receipt.replicas:
        freed[replica.broker_id] += replica.freed_bytes
    return freed


def _notes(receipt: Receipt, partitions: Iterable[PartitionRow]) -> list[str]:
    """The gap's cause, waits against their forecast, what retention took, what producers added."""
    notes = [f"{text(first_letter_up(receipt.gap))}."] if receipt.gap else []
    told = waits.said(receipt.waits)
    if told:
        notes.append(f"{text(first_letter_up(told))}.")
    if unmeasured := receipt.unmeasured_partitions:
        notes.append(f"{formats.plural(unmeasured, 'partition')} had no prediction.")
    if durable := on_disk_said(receipt, partitions):
        notes.append(f"{text(first_letter_up(durable))}.")
    if receipt.retention_bytes:
        notes.append(f"Retention took {markup.size(receipt.retention_bytes)}, not counted.")
    if receipt.produced_bytes:
        notes.append(f"Producers wrote {markup.size(receipt.produced_bytes)} meanwhile.")
    return notes


def table(view: RunView) -> None:
    """One row per partition: what was asked, what reading it back showed."""
    rows = sorted(view.partitions, key=lambda p: (_ORDER.index(p.state), p.topic, p.partition))
    shown = pd.DataFrame(
        {
            "Topic": [row.topic for row in rows],
            "Partition": [row.partition for row in rows],
            "State": [PARTITION_WORDS[row.state][0] for row in rows],
            "Target": [formats.number(row.target_offset) for row in rows],
            "Low watermark": [formats.cell(row.low_watermark) for row in rows],
            "Leader's log start": [formats.cell(row.leader_log_start_offset) for row in rows],
            "Followers behind": [followers_said(row) for row in rows],
            "Error": [row.error or "" for row in rows],
        }
    )
    column = st.column_config.TextColumn
    grid.show(
        shown,
        {
            "Partition": st.column_config.NumberColumn(width=70),
            "State": column(width=110),
            "Target": column(alignment="right", width=100),
            "Low watermark": column(alignment="right", width=115),
            "Leader's log start": column(alignment="right", width=115),
            "Followers behind": column(width=260),
            "Error": column(width=180),
        },
        alt="Partitions of the run with state, target, low watermark and followers behind",
        key="run-table",
    )


# After a run, on the page: records that came back, who is behind, until when it is watched.

_MOST_LINES = 6
_UNDONE = ("pending", "sent", "unknown", "not_done")
_TOO_OLD = "UNSUPPORTED_VERSION"


def alert(partitions: Sequence[PartitionRow], *, acts: bool) -> None:
    """Records came back: which, through whom, and the button that plans them again."""
    said = reverted_said(partitions)
    if not said:
        return
    markup.draw(alert_html(said))
    if acts:
        plan_again(reverted_topics(partitions))


def plan_again(topics: Sequence[str]) -> None:
    """The button that leaves the run for a new plan of these topics, in the cluster shown."""
    st.button(
        "Plan again", key="plan-again", type="primary", on_click=routes.replan, args=(topics,)
    )


def alert_html(said: Sequence[str]) -> str:
    """One line per topic, in red-amber."""
    lines = "".join(f"<p>{text(line)}</p>" for line in said[:_MOST_LINES])
    rest = len(said) - _MOST_LINES
    if rest > 0:
        lines += f"<p>and {formats.plural(rest, 'topic')} more, in the table below</p>"
    return (
        '<div class="lw lw-state alert" role="alert"><h2>↺ Records came back</h2>'
        f"{lines}<p><b>Next:</b> plan these topics again; this plan cannot run twice.</p></div>"
    )


def failed(view: RunView, *, acts: bool) -> None:
    """Nothing was purged: why, and the way to a plan that may be."""
    st.html(failed_html(view))
    if acts:
        plan_again(sorted({row.topic for row in view.partitions}))


def failed_html(view: RunView) -> str:
    """Each error with its partitions and reason, and what to do next."""
    found = Counter((row.error or "unknown", row.message or "") for row in view.partitions)
    lines = "".join(
        f"<p><b>{text(error)}</b>, {formats.plural(count, 'partition')}"
        f"{f': {text(why)}' if why else ''}</p>"
        for (error, why), count in found.most_common(_MOST_LINES)
    )
    step = "Mend what the error names, then plan again: this plan cannot run twice."
    if too_old(view):
        step = (
            "Plan again, and choose “Leader only, verified”, which brokers of any version take, or "
            "wait for all replicas: this plan cannot run twice."
        )
    return (
        '<div class="lw lw-state warn" role="alert"><h2>✖ Nothing was purged</h2>'
        f"{lines}<p><b>Next:</b> {step}</p></div>"
    )


def reasons_html(view: RunView) -> str:
    """Why partitions wait or were not done, as far as the run's own error does not say it."""
    told = (view.run.error or {}).get("message", "")
    found = Counter(
        (row.state, row.error or "unknown", row.message)
        for row in view.partitions
        if row.state in _UNDONE and row.message and row.message not in told
    )
    if not found:
        return ""
    lines = "".join(
        f"<p>{PARTITION_WORDS[state][0]}, {formats.plural(count, 'partition')}: "
        f"<b>{text(error)}</b>, {text(why)}</p>"
        for (state, error, why), count in found.most_common(_MOST_LINES)
    )
    if (rest := len(found) - _MOST_LINES) > 0:
        lines += f"<p>and {formats.plural(rest, 'reason')} more: <code>lowwater run</code></p>"
    return f'<div class="lw lw-state warn" role="status">{lines}</div>'


def too_old(view: RunView) -> bool:
    """Whether leaders were met that do not speak the request of the chosen mode."""
    return any(row.error == _TOO_OLD for row in view.partitions)


def behind_html(view: RunView, now: datetime) -> str:
    """Who followed, who is behind and how fast it closes; until when that is watched."""
    said = arrived_said(view.partitions) + behind_said(view.partitions)
    messages = {row.message for row in view.partitions if row.state == "leader_done"}
    said += sorted(f"{first_letter_up(message)}." for message in messages if message)
    if not said:
        return ""
    lines = "".join(f"<p>{text(line)}</p>" for line in said[:_MOST_LINES])
    until = view.run.watched_until
    if until is not None and not view.run.open and "leader_done" in view.counts:
        lines += f"<p><small>{_watching(until, now)}</small></p>"
    return f'<div class="lw lw-state" role="status">{lines}</div>'


def moves_html(moves: Sequence[MoveRow]) -> str:
    """What became of the offsets of waived groups that were to move to the target."""
    lines = []
    for group_id in sorted({move.group_id for move in moves}):
        own = [move for move in moves if move.group_id == group_id]
        moved = sum(move.state == "moved" and move.attempts > 0 for move in own)
        there = sum(move.state == "moved" and not move.attempts for move in own)
        left = sorted({m.message or m.error or m.state for m in own if m.state != "moved"})
        stood = f", {formats.number(there)} stood there or further before" if there else ""
        why = f": {text('; '.join(left[:_MOST_LINES]))}" if left else ""
        lines.append(
            f"<p>{'✔' if not left else '…'} <b>{text(group_id)}</b>: "
            f"{formats.number(moved)} of {formats.plural(len(own), 'offset')} moved to the "
            f"target{stood}{why}</p>"
        )
    return f'<div class="lw lw-state" role="status">{"".join(lines)}</div>' if lines else ""


def no_receipt(run: RunRow, now: datetime) -> str:
    """Why a closed run has none."""
    if watching(run, now):
        return "The receipt follows once Kafka has deleted the segments."
    return "No receipt: nobody followed the run to the end of its watch."


def _watching(until: datetime, now: datetime) -> str:
    if now >= until:
        return f"Watching ended {markup.ago(until, now)}; what is behind then is not followed."
    left = markup.hover(f"{formats.duration(until - now)} more", markup.exact(until))
    return (
        f"Watched for {left}: a partition becomes done when its replicas have arrived; one that is "
        "elected leader before that brings the records back."
    )


_TOLD_FOR = timedelta(seconds=5)  # one scrape for all who look
_PATIENCE = timedelta(seconds=2)  # the run's own numbers wait for it
_MOST_BROKERS = 8


def requests_now(screen: Screen, view: RunView) -> None:
    """A line for each leader of the run that tells; nothing where nobody named their metrics."""
    led = (r.sent_leader_id if r.leader_id is None else r.leader_id for r in view.partitions)
    leaders = {broker_id for broker_id in led if broker_id is not None}
    sources = sources_of(screen.settings, screen.cluster.name, _PATIENCE)
    if sources is None or not leaders:
        return
    found = delete_requests.of_samples(_told(sources, screen.cluster.cluster_id), leaders)
    lines = "".join(f"<p>{text(delete_requests.said(row))}</p>" for row in found[:_MOST_BROKERS])
    markup.draw(f'<div class="lw lw-state" role="status">{lines}</div>' if lines else "")


@st.cache_data(ttl=_TOLD_FOR, max_entries=8, show_spinner=False)
def _told(_sources: Sources, cluster_id: str) -> tuple[BrokerMetric, ...]:
    del cluster_id  # part of the key
    return _sources.read().samples
