"""What can be done about a topic's bytes: purge, wait, waive, or shorten its retention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dashboard.ui.components.markup import plain
from dashboard.ui.growth.growth_choice import KEEPS
from dashboard.ui.growth.growth_loading import deletable, known_of
from dashboard.ui.growth.growth_scenario import Scenario, effect_of
from dashboard.ui.growth.growth_what_if import outcomes
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen
from dashboard.views import formats
from dashboard.views.topic_rows import TopicRow


def show(screen: Screen, row: TopicRow, blockers: Sequence[Mapping[str, Any]]) -> None:
    """Each answer with its bytes; nothing here changes the cluster."""
    st.html('<div class="lw"><h2>What can be done</h2></div>')
    if row.free_partitions and row.free_bytes:
        label = f"Plan a purge: {formats.size(row.free_bytes)} below its targets"
        if st.button(label, type="primary", key="topic-purge"):
            routes.plan_purge([row.topic])
    st.caption(plain(waiting(row)))
    waive(row, blockers)
    shorten(screen, row.topic)


def waiting(row: TopicRow) -> str:
    """What comes by itself."""
    later, held = row.later_bytes, row.held_bytes
    said = f"Wait: {formats.size(later)} of what is consumed leave once active segments roll."
    if row.held_by:
        said += f" {formats.size(held)} are held back until {row.held_by} has read on."
    if row.guarded_bytes != 0:
        guards = ", ".join(row.guards)
        said += f" {formats.size(row.guarded_bytes)} are held by guards: {guards}."
    return said


def waive(row: TopicRow, blockers: Sequence[Mapping[str, Any]]) -> None:
    """The groups whose waiver would free something, each with a plan."""
    freeing = [b for b in blockers if b["bytes_freed_if_waived"]]
    if not freeing:
        st.caption("Waive: no group alone keeps anything here that would leave at once.")
    for blocker in freeing:
        group, size = blocker["group_id"], formats.size(blocker["bytes_freed_if_waived"])
        label = f"Waive {plain(group)}: {size} at once"
        if st.button(label, key=f"waive {group}", help="It loses what it has not read there."):
            routes.plan_purge([row.topic], [group])


def shorten(screen: Screen, topic: str) -> None:
    """What would leave if records were kept for less, as the page Growth counts it."""
    if not deletable(screen, [topic]):
        st.caption("Shorten retention: it is compacted, so retention deletes nothing.")
        return
    keep = st.selectbox("Keep records for", list(KEEPS), index=None, key=f"topic-keep-{topic}",
                        placeholder="today's retention")  # fmt: skip
    if keep is None:
        st.caption("Shorten retention: choose for how long, and see what would leave.")
        return
    known = known_of(screen)
    asked = Scenario(keep=KEEPS[keep], kept=frozenset({topic}))
    gone = [o.gone for o in outcomes(known.disks, known.parts, effect_of(known, asked))]
    least, likely, most = (
        formats.size(_sum([getattr(g, side) for g in gone]))
        for side in ("soonest", "likely", "latest")
    )
    st.caption(
        f"Shorten retention to {keep}: {likely} leave ({least} to {most}), whether read or not. "
        "Growth has the retention that fits its readers."
    )


def _sum(sizes: Sequence[float | None]) -> float | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
