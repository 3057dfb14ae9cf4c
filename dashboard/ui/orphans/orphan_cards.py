"""Evidence cards: all that is known of one orphan, its verdict, and the line that sweeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import streamlit as st

from dashboard.orphans.missing import NEVER_SWEPT
from dashboard.safety.orphan_words import SCHEDULED
from dashboard.ui.components import markup
from dashboard.ui.orphans.orphan_rows import (
    KIND_WORDS,
    VERDICT_WORDS,
    Row,
    name,
    on_disk,
    sweepable,
    until,
)
from dashboard.views import formats

SHOWN = 12


def show(rows: Sequence[Row], lines: Mapping[int, str], now: datetime) -> None:
    """The first cards, two beside each other. `lines`: the sweep's line by broker."""
    shown = rows[:SHOWN]
    for at in range(0, len(shown), 2):
        places = st.columns(2, gap="small")
        for place, row in zip(places, shown[at : at + 2], strict=False):
            with place, st.container(border=True, height="stretch"):
                st.html(card_html(row, now))
                if sweepable(row):
                    st.code(lines[row["broker_id"]], language=None, wrap_lines=True)
    rest = len(rows) - len(shown)
    if rest > 0:
        st.caption(f"and {formats.plural(rest, 'card')} more: filter, or select rows.")


def card_html(row: Row, now: datetime) -> str:
    """One card; what is not known says so."""
    facts = "".join(f"<dt>{term}</dt><dd>{said}</dd>" for term, said in _facts(row, now))
    return (
        f'<div class="lw lw-card"><h3>✚ {markup.text(name(row))}</h3>'
        f"<p>{_verdict(row, now)}</p><dl>{facts}</dl>"
        f"<p><small>{markup.text(row['evidence'] or '')}</small></p>{_how(row)}</div>"
    )


def _verdict(row: Row, now: datetime) -> str:
    said = f"<b>{VERDICT_WORDS[row['verdict']]}</b>: {markup.text(row['reason'])}."
    if row["verdict"] != SCHEDULED:
        return said
    moment = row["check_at"]
    return f"{said} Looked at again {markup.hover(until(moment, now), formats.utc(moment))}."


def _facts(row: Row, now: datetime) -> list[tuple[str, str]]:
    where = f"broker {row['broker_id']}, {row['log_dir']}"
    seen = formats.plural(row["snapshots_seen"], "snapshot") if row["snapshots_seen"] else "unknown"
    return [
        ("Where", markup.text(where)),
        ("Kind", markup.text(f"{row['kind']}: {KIND_WORDS.get(row['kind'], '')}")),
        ("Topic", markup.text(f"{row['topic']}, partition {row['partition']}")),
        ("Topic id", _ids(row)),
        ("On disk", _size(row)),
        ("Newest record", markup.ago(row["newest_at"], now)),
        ("Seen", f"first {markup.ago(row['first_seen_at'], now)}, last "
                 f"{markup.ago(row['last_seen_at'], now)}, by {seen}"),
    ]  # fmt: skip


def _ids(row: Row) -> str:
    mine = row["topic_id"] or "none in the folder"
    today = row["current_topic_id"]
    named = f"<code>{markup.text(today)}</code>" if today else "no topic of that name is known"
    return f"<code>{markup.text(mine)}</code><br>today: {named}"


def _size(row: Row) -> str:
    said = markup.size(on_disk(row))
    if row["allocated_bytes"] is None:
        return f"{said} of log; the rest is not known without an inventory"
    return f"{said}, {markup.size(row['size_bytes'])} of it records"


def _how(row: Row) -> str:
    """What the line below the card does, or why there is none."""
    if row["kind"] in NEVER_SWEPT:
        return "<p>No sweep touches this kind; see docs/sweep.md.</p>"
    if not sweepable(row):
        return ""
    return (
        "<p><small>On the broker's host, with the verdicts file: tells what it would do for every "
        "removable folder there; <code>--apply</code> moves them into a quarantine.</small></p>"
    )


def lines_of(disks: Sequence[Row], line: Any) -> dict[int, str]:
    """The sweep's line by broker: `line` makes it from all the log dirs of one."""
    by_broker: dict[int, list[str]] = {}
    for row in disks:
        if row["log_dir"] is not None:
            by_broker.setdefault(row["broker_id"], []).append(row["log_dir"])
    return {broker: line(sorted(dirs)) for broker, dirs in by_broker.items()}
