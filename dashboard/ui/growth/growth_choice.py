"""What might be changed, chosen at the side of the page Growth: every number redraws."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import streamlit as st

from dashboard.ui.components.picking import pick
from dashboard.ui.growth.growth_loading import deletable
from dashboard.ui.growth.growth_scenario import Scenario
from dashboard.ui.session.context import Screen
from dashboard.ui.session.loading import findings_of, rows_of
from dashboard.views.headline import blockers_by_group

KEEPS = {
    "6 hours": timedelta(hours=6),
    "12 hours": timedelta(hours=12),
    "1 day": timedelta(days=1),
    "2 days": timedelta(days=2),
    "3 days": timedelta(days=3),
    "5 days": timedelta(days=5),
    "7 days": timedelta(days=7),
    "14 days": timedelta(days=14),
}
_NONE = "none"


def choose(screen: Screen) -> Scenario:
    """Draw the choices; what is asked."""
    rows = rows_of(screen)
    by_size = sorted(rows, key=lambda row: (-(row.size_bytes or 0), row.topic))
    st.html(
        '<div class="lw"><h2>What if …</h2><small>Nothing changes on the cluster; the numbers '
        "here redraw.</small></div>"
    )
    deletes = deletable(screen, [row.topic for row in by_size])
    kept = _many("Shorter retention in", deletes, "topic", "kept")
    keep = st.selectbox(
        "Keep records for", list(KEEPS), index=list(KEEPS).index("3 days"), key="growth-keep",
        disabled=not kept,
    )  # fmt: skip
    blockers = findings_of(screen).table("blockers")
    groups = [group for group, freed in blockers_by_group(blockers, blockers.num_rows) if freed > 0]
    waived = _many("Waive groups, then purge once", groups, "group", "waived")
    can = [row.topic for row in by_size if row.consumed_bytes or row.at_once_bytes]
    purged = _many("A purge policy on", can, "topic", "purged")
    if st.toggle("on all that can be purged", key="growth-purge-all"):
        purged = can
    return Scenario(
        keep=KEEPS[keep] if kept else None,
        kept=frozenset(kept),
        waived=tuple(sorted(waived)),
        purged=frozenset(purged),
    )


def _many(label: str, options: Sequence[str], noun: str, key: str) -> list[str]:
    """What has most to give comes first."""
    return pick(label, options, noun, f"growth-{key}", placeholder=_NONE, in_order=True)
