"""A run on the page: states with counts, partitions, followers behind, and the receipt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

import pandas as pd
import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.words import first_letter_up
from dashboard.purge.forecast import wait_outcomes
from dashboard.purge.journal.journal_rows import RunRow, RunView
from dashboard.purge.receipt.after_text import followers_said
from dashboard.purge.receipt.model import Receipt
from dashboard.ui.components import grid, markup
from dashboard.ui.components.markup import text
from dashboard.ui.purge import run_after
from dashboard.ui.purge.runs import PARTITION_WORDS, RUN_WORDS
from dashboard.views import formats

_ORDER = ("sent", "unknown", "reverted", "not_done", "leader_done", "pending", "done")


def show(view: RunView) -> None:
    """Everything that the journal knows of this run right now."""
    now = utc_now()
    run_after.alert(view.partitions)
    st.html(head_html(view.run, now) + counts_html(view))
    markup.draw(run_after.behind_html(view, now) + run_after.moves_html(view.moves))
    if view.run.error:
        st.html(error_html(view.run.error))
    if view.run.outcome == "failed":
        run_after.failed(view)
    elif view.run.receipt:
        st.html(receipt_html(view.run.receipt))
    elif not view.run.open and view.run.state in ("done", "partial"):
        st.caption(run_after.no_receipt(view.run, now))
    table(view)


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


def counts_html(view: RunView) -> str:
    """Partitions by state, the open and troubled ones first."""
    cells = "".join(
        f"<div><b>{formats.number(view.counts[state])}</b>"
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


def receipt_html(receipt: Receipt) -> str:
    """Predicted against freed, by broker; the cause of a gap; whether more may still come."""
    said = "Receipt" if receipt.final else "Receipt so far; final when the brokers have settled"
    cells = "".join(
        f"<div><b>{markup.size(size)}</b><small>{name}</small></div>"
        for size, name in ((receipt.predicted_bytes, "predicted"), (receipt.freed_bytes, "freed"))
    )
    cells += "".join(
        f"<div><b>{markup.size(freed)}</b><small>on broker {broker}</small></div>"
        for broker, freed in sorted(_freed_by_broker(receipt).items())
    )
    notes = "".join(f"<p>{line}</p>" for line in _notes(receipt))
    return (
        f'<div class="lw lw-state" role="status"><h2>{"✔" if receipt.final else "…"} {said}</h2>'
        f'<div class="lw-counts">{cells}</div>{notes}</div>'
    )


def _freed_by_broker(receipt: Receipt) -> Counter[int]:
    freed: Counter[int] = Counter()
    for replica in receipt.replicas:
        freed[replica.broker_id] += replica.freed_bytes
    return freed


def _notes(receipt: Receipt) -> list[str]:
    """The gap's cause, waits against their forecast, what retention took, what producers added."""
    notes = [f"{text(first_letter_up(receipt.gap))}."] if receipt.gap else []
    waits = wait_outcomes.said(receipt.waits)
    if waits:
        notes.append(f"{text(first_letter_up(waits))}.")
    if unmeasured := receipt.unmeasured_partitions:
        notes.append(f"{formats.plural(unmeasured, 'partition')} had no prediction.")
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
            "Low watermark": [_offset(row.low_watermark) for row in rows],
            "Leader's log start": [_offset(row.leader_log_start_offset) for row in rows],
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


def _offset(offset: int | None) -> str:
    return formats.MISSING if offset is None else formats.number(offset)
