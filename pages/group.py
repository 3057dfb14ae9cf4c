"""Group: what one group holds back, where, since when, and what can be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow.compute as pc
import streamlit as st

from dashboard.core.arrow import records
from dashboard.core.words import first_letter_up
from dashboard.settings.sections import beside
from dashboard.store.finding_rows import Blocker
from dashboard.ui import over_time
from dashboard.ui.components import markup, states
from dashboard.ui.components.glossary import term
from dashboard.ui.components.markup import text
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen, facts_of, findings_of
from dashboard.ui.session.header import analyzed
from dashboard.views import formats
from dashboard.views.colours import HELD
from dashboard.views.facts import known_total
from dashboard.views.headline import alive_said, at_least

Row = Mapping[str, Any]


def show() -> None:
    """The group that the address names, by the findings alone."""
    if (opened := analyzed()) is None:
        return
    screen, findings = opened
    name = routes.named()
    table = findings.table("blockers")
    mine = table.filter(pc.equal(table["group_id"], name))
    if not mine.num_rows:
        states.show(
            f"No group {name}" if name else "Which group?",
            "The newest analysis knows no offset of it.",
            "Find one by the box in the header.",
        )
        return
    rows = sorted(mine.to_pylist(), key=lambda r: (-(r["bytes_held_alone"] or 0), r["topic"]))
    held, freed = (known_total(mine, f"bytes_{of}") for of in ("held_alone", "freed_if_waived"))
    cost = beside(screen.price, freed)
    found = records(mine, Blocker)
    alive = standing(found, screen.now)
    least_held, least = at_least(found, "bytes_held_alone"), at_least(found)
    st.html(
        f'<div class="lw lw-sentence"><strong>{text(name)}</strong> holds back {least_held}'
        f"{markup.strong(markup.size(held), HELD)}; {least}{markup.size(freed)}{text(cost)} would "
        f"leave at once if it were {term('waived', 'waiver')}.<br>"
        f"<small>{text(alive)}</small></div>"
    )
    show_answers(name, rows, f"{least}{formats.size(freed)}")
    over_time.group_line(screen, name)
    st.html(topics_html(rows, unread(screen, name), {row.topic: row for row in found}))


def standing(found: Sequence[Blocker], now: datetime) -> str:
    """Its state, whether anybody reads on, and how it counts where nobody can tell."""
    state, alive = found[0].group_state, alive_said(found, now)
    if state == "Gone":
        return f"{first_letter_up(alive)}. It counts at its last known offsets until it is waived."
    if found[0].members is None:
        return (
            f"{first_letter_up(alive)}: no coordinator told of them, so it may be alive. It counts "
            "at its last known offsets."
        )
    return f"{state}: {alive}."


def unread(screen: Screen, group: str) -> dict[str, int]:
    """Records between its offsets and the high watermark, by topic, where both are known."""
    facts, holds = facts_of(screen), findings_of(screen).table("holds")
    mine = holds.filter(pc.equal(holds["group_id"], group))
    of = facts.select(["topic", "partition", "high_watermark", "log_start_offset"])
    both = mine.select(["topic", "partition", "committed_offset"]).join(of, ["topic", "partition"])
    found: dict[str, int] = {}
    for row in both.to_pylist():
        if None not in (row["committed_offset"], row["high_watermark"]):
            begin = max(row["committed_offset"], row["log_start_offset"] or 0)
            found[row["topic"]] = found.get(row["topic"], 0) + max(0, row["high_watermark"] - begin)
    return found


def show_answers(group: str, rows: Sequence[Row], freed: str) -> None:
    """Wait for it, or waive it where that frees something."""
    topics = [row["topic"] for row in rows if row["bytes_freed_if_waived"]]
    with st.container(horizontal=True, vertical_alignment="center"):
        label = f"Plan a purge without it: {freed} more at once"
        if st.button(label, key="group-waive", disabled=not topics):
            routes.plan_purge(topics, [group])
        routes.link("reclaimable", "Its topics on Reclaimable", group=group)
    st.caption(
        "Wait: what it holds back goes with the next purge once it has read on. Waive: it loses "
        "what it has not read; a reason is asked for and kept."
    )


def topics_html(rows: Sequence[Row], left: Mapping[str, int], of: Mapping[str, Blocker]) -> str:
    """A line per topic that it has an offset on."""
    lines = (
        (
            markup.link("topic", row["topic"]),
            formats.number(left.get(row["topic"])),
            *(
                at_least([of[row["topic"]]], what) + markup.size(row[what])
                for what in ("bytes_held_alone", "bytes_freed_if_waived")
            ),
        )
        for row in rows
    )
    heads = ("Topic", "Unread records", "Holds back", "At once if waived")
    return f'<div class="lw">{markup.table(heads, lines, (1, 2, 3))}</div>'


show()
