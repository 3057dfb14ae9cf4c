"""Reclaimable: which topics, and what holds the rest?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.settings.sections import Price, beside
from dashboard.ui import reclaimable
from dashboard.ui.components import markup, states
from dashboard.ui.components.glossary import term
from dashboard.ui.components.states import Evidence, evidence, how_do_you_know
from dashboard.ui.growth import advice
from dashboard.ui.purge.declare import declare_readers
from dashboard.ui.reclaimable import choose_filters
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen, findings_of, rows_of
from dashboard.ui.session.header import analyzed
from dashboard.views import formats
from dashboard.views.colours import HELD, RECLAIMABLE
from dashboard.views.facts import Guarded, by_guard, guarded_said, known_total
from dashboard.views.topic_rows import TopicRow, topic_rows, total


def show() -> None:
    """Load, choose (filters, what-if, rows), show the table and the chosen partitions."""
    if (opened := analyzed()) is None:
        return
    screen, findings = opened
    findings.read("facts", "holds", "curves", "blockers", "growth")
    filters = choose_filters(screen)
    main, side = st.columns([4, 1.1], gap="medium")
    kept = findings.lately(filters, lambda: [row for row in rows_of(screen) if filters.keep(row)])
    with side:
        waived = reclaimable.choose(screen, [row.topic for row in kept])
    facts = reclaimable.redrawn(screen, waived)
    # What was shown stays, in its order: a row that moved would be another one under the mouse.
    drawn = {row.topic: row for row in topic_rows(facts)} if waived else {}
    rows = [drawn.get(row.topic, row) for row in kept]
    # Who looks at the same topics sees the same: it is counted once for all of them.
    same = (filters, waived)
    told = findings.lately(("told", *same), lambda: told_of(facts, rows))
    with main:
        show_totals(told, rows, kept, waived, screen.price)
        if rows:
            growth = findings.derived(
                "growth of topics", lambda: reclaimable.growth_of(findings.table("growth"))
            )
            made = findings.lately(("table", *same), lambda: reclaimable.frame(rows, growth))
            chosen = reclaimable.show(rows, growth, made, key="topics-table")
            show_actions(screen, told, rows, chosen, waived)
        else:
            states.show("No topic passes the filters", "Widen them, or clear the topic's name.")
            chosen = []
    if chosen:
        show_partitions(screen, facts, chosen, waived)
    advice.show_idle(screen)
    reclaimable.show_unseen(screen)


class Told(NamedTuple):
    """What is said beside the rows that pass the filters, of their partitions."""

    guarded_bytes: int | None
    guards: Sequence[Guarded]
    known_by: Evidence


_READ = ["topic", "method", "bytes_low", "bytes_likely", "bytes_high", "consumed", "guarded",
         "guard_names"]  # fmt: skip


def told_of(facts: pa.Table, rows: Sequence[TopicRow]) -> Told:
    """Of the partitions of these topics."""
    names = pa.array([row.topic for row in rows], pa.string())
    mine = facts.select(_READ).filter(pc.is_in(facts["topic"], value_set=names))
    return Told(known_total(mine, "bytes_likely", "guarded"), by_guard(mine), evidence(mine))


def show_totals(
    told: Told,
    rows: Sequence[TopicRow],
    before: Sequence[TopicRow],
    waived: Sequence[str],
    price: Price | None,
) -> None:
    """The totals of the rows that pass the filters, and what they cost where a price is set."""
    if rows and all(row.size_bytes is None for row in rows):
        st.html(
            f'<div class="lw"><b>{formats.plural(len(rows), "topic")}</b>: how many bytes they '
            "hold and give back is unknown, for no replica's size could be read.</div>"
        )
        return
    now, was = total(rows, "consumed_bytes"), total(before, "consumed_bytes")
    said = (
        f"<b>{formats.plural(len(rows), 'topic')}</b> with "
        f"{markup.size(total(rows, 'size_bytes'))} on disk: "
        f"{markup.strong(markup.size(now), RECLAIMABLE)} consumed by every known group, "
        f"{markup.size(total(rows, 'free_bytes'))} of it free of {term('guards', 'guard')}; "
        f"{markup.strong(markup.size(total(rows, 'held_bytes')), HELD)} "
        f"{term('held back', 'blocker')}."
    )
    if waived:
        names = markup.text(", ".join(waived))
        once = total(rows, "at_once_bytes") - total(before, "at_once_bytes")
        cost = markup.text(beside(price, now - was))
        said += (
            f" <b>+{markup.size(now - was)}</b>{cost} if {names} were waived, {markup.size(once)} "
            "of it at once."
        )
    if price:
        said += f" To keep what is consumed costs about {markup.text(price.a_month(now))}."
    if told.guards:
        said += f"<br>{markup.text(guarded_said(told.guarded_bytes, told.guards))}."
    st.html(f'<div class="lw">{said}</div>')


def show_actions(
    screen: Screen,
    told: Told,
    rows: Sequence[TopicRow],
    chosen: Sequence[str],
    waived: Sequence[str],
) -> None:
    """What can be done with the selected rows."""
    selected = [row for row in rows if row.topic in chosen]
    with st.container(horizontal=True, vertical_alignment="center"):
        label = f"Plan a purge of {formats.plural(len(chosen), 'topic')}"
        if st.button(label, type="primary", disabled=not chosen, key="plan-selected"):
            routes.plan_purge(chosen, waived)
        declare_readers(screen, "Declare readers", [row.topic for row in (selected or rows)])
        how_do_you_know(screen, told.known_by)
        if selected:
            freed = formats.size(total(selected, "consumed_bytes"))
            st.caption(f"{freed} reclaimable in the selection; the purge page previews it live.")
        else:
            st.caption("Select rows by the box at their left: their partitions show below.")


def show_partitions(
    screen: Screen, facts: pa.Table, chosen: Sequence[str], waived: Sequence[str]
) -> None:
    """The strips of the selected topic, and each guard's reason."""
    topic = chosen[-1]
    if len(chosen) > 1:
        topic = (
            st.radio(
                "Partitions of",
                chosen,
                index=len(chosen) - 1,
                format_func=markup.plain,
                horizontal=True,
            )
            or topic
        )
    else:
        st.html(f'<div class="lw"><h2>Partitions of {markup.text(topic)}</h2></div>')
    with st.container(horizontal=True):
        routes.link("topic", f"Everything about {markup.plain(topic)}", name=topic)
    st.html(reclaimable.topic_html(facts, findings_of(screen).table("holds"), topic, waived))


show()
