"""Overview: how much can be given back, and where to start."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import streamlit as st

from dashboard.core import demo_faults
from dashboard.reports import storage
from dashboard.reports.parts import Figure
from dashboard.reports.source import open_source
from dashboard.reports.space import Space
from dashboard.ui import making_room, overview, tour, treemap
from dashboard.ui.components import markup, states, style
from dashboard.ui.components.states import evidence, how_do_you_know
from dashboard.ui.purge import runs
from dashboard.ui.purge.declare import declare_readers
from dashboard.ui.session import routes
from dashboard.ui.session.context import (
    Screen,
    Tables,
    facts_of,
    findings_of,
    headline_of,
    rows_of,
)
from dashboard.ui.session.header import analyzed
from dashboard.views import formats
from dashboard.views.headline import Headline, Kind, next_steps

# By which guard Reclaimable shows the topics of a step.
_GUARDS: Mapping[Kind, str] = {
    "purge": "none", "declare": "readers-undeclared", "unread": "no-committed-offset",
    "unresolved": "target-unresolved",
}  # fmt: skip


def show() -> None:
    """Load, then a disk that runs full, the sentence and the large numbers, the disks and topics,
    the short lists.
    """
    if (opened := analyzed(follows=True)) is None:
        return
    screen, findings = opened
    facts = facts_of(screen)
    disk = findings.table("disks")
    numbers = headline_of(screen)
    growth = findings.table("growth")
    rooms = findings.derived("rooms", lambda: making_room.rooms(disk, growth))
    if rooms and rooms[0].urgent:
        making_room.alarm(rooms)
        making_room.offer(screen, rooms, findings.table("blockers"))
    show_sentence(screen, facts, numbers)
    st.html(overview.tiles_html(figures_of(screen, findings)))
    if rooms and not rooms[0].urgent:
        making_room.offer(screen, rooms, findings.table("blockers"))
    left, right = st.columns([5, 6], gap="medium")
    with left:
        away = {b.broker_id: b.error or "no answer" for b in screen.missing_brokers}
        st.html(overview.disks_html(disk, growth, away, guarded=bool(numbers.guarded)))
        routes.link("growth", "What fills them, and what would change when they are full")
        overview.blockers(screen)
        overview.followers(screen)
    with right:
        show_next(screen, numbers)
        show_treemap(screen)
    beside = findings.table("orphans").num_rows > 0
    left, right = st.columns([5, 6], gap="medium") if beside else (st.container(), st.container())
    with left:
        runs.recent(screen)
    with right:
        overview.orphans(screen)
    if (room := demo_faults.room()) is not None:
        overview.demo_panel(room)
        tour.offer(room)


def figures_of(screen: Screen, findings: Tables) -> tuple[Figure, ...]:
    """The storage report's large numbers of this analysis: the report's own, so they agree."""

    def made() -> tuple[Figure, ...]:
        source = open_source(
            screen.cluster, (), screen.now, screen.settings.every,
            analysis_id=findings.id, read=findings.table, price=screen.price,
        )  # fmt: skip
        return storage.figures(source, Space(source, findings.facts()))

    return findings.derived(f"figures, {screen.price}", made)


def show_sentence(screen: Screen, facts: pa.Table, numbers: Headline) -> None:
    """The one sentence with the numbers, and the button that acts on it."""
    if numbers.nothing:
        show_nothing(screen, numbers)
        return
    left, right = st.columns([7, 3], vertical_alignment="center")
    with left:
        st.html(f'<div class="lw lw-sentence">{overview.sentence(numbers, screen.price)}</div>')
        if numbers.orphan_bytes:
            routes.link("orphans", f"See the {formats.size(numbers.orphan_bytes)} in orphans")
    with right:
        if numbers.safe_topics:
            # The figure that the plan shows first, or the button would promise another one.
            label = f"Plan the safest: {formats.size(numbers.safe_at_once_bytes)} at once"
            if numbers.safe_at_once_bytes is None:
                label = "Plan the safest topics"
            if st.button(label, type="primary", width="stretch", key="plan-safest"):
                routes.plan_purge(numbers.safe_topics)
        with st.container(horizontal=True, horizontal_alignment="distribute"):
            found = findings_of(screen)
            how_do_you_know(screen, found.derived("evidence", lambda: evidence(facts)))
            if numbers.undeclared_topics:
                count = formats.plural(len(numbers.undeclared_topics), "topic")
                declare_readers(screen, f"Declare readers for {count}", numbers.undeclared_topics)


def show_nothing(screen: Screen, numbers: Headline) -> None:
    """Nothing can be given back: which guards hold how much, and where to look."""
    states.show(
        "Nothing can be given back" + (" while guards hold it" if numbers.guarded else ""),
        numbers.why_nothing([broker.broker_id for broker in screen.missing_brokers]),
        "Open Reclaimable: each topic names what guards it, and what ends that.",
        warn=bool(numbers.guarded),
    )


def show_next(screen: Screen, numbers: Headline) -> None:
    """What to do next, each line a link to where it is done."""
    steps = findings_of(screen).derived(
        f"steps, {screen.price}", lambda: next_steps(numbers, rows_of(screen), screen.price)
    )
    if not steps:
        return
    st.html('<div class="lw"><h2>What to do next</h2></div>')
    for at, step in enumerate(steps, 1):
        label = f"{at}. {markup.plain(step.said)}"
        if step.kind == "group":
            routes.link("group", label, name=step.names[0])
        else:
            routes.link("reclaimable", label, guard=_GUARDS[step.kind])


def show_treemap(screen: Screen) -> None:
    """Topics by bytes on disk; a click leads to the topic's page."""
    st.html(
        '<div class="lw"><h2>Topics by bytes on disk <small>'
        f"{'brighter' if style.dark() else 'darker'}: more of it reclaimable; "
        "click one to see what holds the rest</small></h2></div>"
    )
    rows, found, dark = rows_of(screen), findings_of(screen), style.dark()
    shown = found.derived("topics of the map", lambda: treemap.shown_topics(rows))
    if rows and not shown:
        st.caption("Sizes of topics are unknown: no replica's size could be read.")
        return
    # A fresh key per visit: a tile that stays selected would lead away again on return.
    visit = st.session_state.setdefault("lw-treemap-visit", 0)
    event = st.echarts_chart(
        found.derived(f"map, {dark=}", lambda: treemap.treemap(rows, dark=dark)),
        height=340,
        key=f"treemap-{visit}",
        on_select="rerun",
        alt="Topics by bytes on disk; the table on the page Reclaimable has the same numbers",
    )
    chosen = [i for group in event.selection.selected for i in group["data_indices"]]
    if chosen:
        st.session_state["lw-treemap-visit"] = visit + 1
        if chosen[0] < len(shown):
            routes.go("topic", name=shown[chosen[0]].topic)
        routes.go("reclaimable")


show()
