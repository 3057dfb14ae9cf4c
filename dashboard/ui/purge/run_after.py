"""After a run, on the page: records that came back, who is behind, until when it is watched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from dashboard.core.words import first_letter_up
from dashboard.purge.journal.journal_rows import PartitionRow, RunRow, RunView
from dashboard.purge.journal.journal_tables import watching
from dashboard.purge.plan.moves import MoveRow
from dashboard.purge.receipt.after_text import behind_said, reverted_said, reverted_topics
from dashboard.ui.components import markup
from dashboard.ui.components.markup import text
from dashboard.ui.session import routes
from dashboard.views import formats

_MOST_LINES = 6
_TOO_OLD = "UNSUPPORTED_VERSION"


def alert(partitions: Sequence[PartitionRow]) -> None:
    """Records came back: which, through whom, and the button that plans them again."""
    said = reverted_said(partitions)
    if not said:
        return
    markup.draw(alert_html(said))
    st.button(
        "Plan again",
        key="plan-again",
        type="primary",
        on_click=routes.replan,
        args=(reverted_topics(partitions),),
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


def failed(view: RunView) -> None:
    """Nothing was purged: why, and the way to a plan that may be."""
    st.html(failed_html(view))
    topics = sorted({row.topic for row in view.partitions})
    st.button(
        "Plan again", key="plan-again", type="primary", on_click=routes.replan, args=(topics,)
    )


def failed_html(view: RunView) -> str:
    """Each error with its partitions and reason, and what to do next."""
    found = Counter((row.error or "unknown", row.message or "") for row in view.partitions)
    lines = "".join(
        f"<p><b>{text(error)}</b>, {formats.plural(count, 'partition')}"
        f"{f': {text(why)}' if why else ''}</p>"
        for (error, why), count in found.most_common(_MOST_LINES)
    )
    step = "Mend what the error names, then plan again: this plan cannot run twice."
    if any(row.error == _TOO_OLD for row in view.partitions):
        step = (
            "Plan again, and choose “Leader only, verified”, which brokers of any version take, or "
            "wait for all replicas: this plan cannot run twice."
        )
    return (
        '<div class="lw lw-state warn" role="alert"><h2>✖ Nothing was purged</h2>'
        f"{lines}<p><b>Next:</b> {step}</p></div>"
    )


def behind_html(view: RunView, now: datetime) -> str:
    """Who is behind and how fast it closes; until when that is watched."""
    said = behind_said(view.partitions)
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
    left = markup.hover(f"{formats.duration(until - now)} more", formats.utc(until))
    return f"Watched for {left}: a partition becomes done when its replicas have arrived."
