"""The what-if at the side: tick groups to waive, and every number on the page redraws."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.ui.components.markup import plain
from dashboard.ui.components.picking import pick
from dashboard.ui.overview.lists import silence
from dashboard.ui.session.context import Screen
from dashboard.ui.session.loading import facts_of, findings_of
from dashboard.views import formats
from dashboard.views.headline import blockers_by_group
from dashboard.views.topic_rows import groups_of
from dashboard.views.what_if import waive

TICKS = 8


def choose(screen: Screen, topics: Collection[str]) -> tuple[str, ...]:
    """Draw the ticks for the groups on these topics; the groups to waive."""
    blockers = findings_of(screen).table("blockers")
    here = blockers.filter(pc.is_in(blockers["topic"], pa.array(sorted(topics), pa.string())))
    listed = [g for g in blockers_by_group(here, TICKS) if g[1] > 0]
    st.html(
        '<div class="lw"><h2>What if … were waived?</h2><small>Nothing changes on the cluster; '
        "the numbers here redraw. Beside each group: what would leave at once.</small></div>"
    )
    chosen = [
        g
        for g, freed in listed
        if st.checkbox(_label(g, freed, here, screen.now), key=f"waive {g}")
    ]
    rest = [g for g in groups_of(findings_of(screen).table("holds"), topics)
            if g not in {g for g, _ in listed}]  # fmt: skip
    if rest:
        chosen += pick("Other groups", rest, "group", "waive-others", placeholder="none")
    return tuple(sorted(chosen))


def redrawn(screen: Screen, waived: Sequence[str]) -> pa.Table:
    """The committed target's facts without the waived groups, exactly."""
    facts = facts_of(screen)
    if not waived:
        return facts
    found = findings_of(screen)
    return waive(
        facts,
        found.table("holds"),
        found.curves(),
        waived,
    )


def _label(group: str, freed: int, blockers: pa.Table, now: datetime) -> str:
    silent = silence(blockers, group, now)
    return f"**{plain(group)}** · {formats.size(freed)}{silent and f' :small[{silent}]'}"
