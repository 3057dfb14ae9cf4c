"""The Overview's short lists: five rows each, every row a link to where it is acted on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.ui.components.markup import plain
from dashboard.ui.orphans.orphan_rows import name, on_disk
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen
from dashboard.views import formats
from dashboard.views.followers import slow_units
from dashboard.views.headline import blockers_by_group, unknown_blockers

ROWS = 5
_DEAD = ("Empty", "Dead")


def blockers(screen: Screen) -> None:
    """The groups that hold back most by themselves, also where waiving them would free nothing."""
    st.html('<div class="lw"><h2>Largest blockers</h2></div>')
    assert screen.findings is not None
    rows = blockers_by_group(screen.findings.table("blockers"), ROWS, "bytes_held_alone")
    rows = [(group, held) for group, held in rows if held > 0]
    table = screen.findings.table("blockers")
    for group, held in rows:
        silent = silence(table, group, screen.now)
        label = f"**{plain(group)}** holds back {formats.size(held)}{silent and f', {silent}'}"
        routes.link("group", label, name=group)
    if not rows and unknown_blockers(table):
        st.caption("What groups hold back is unknown: no replica's size could be read.")
    elif not rows:
        st.caption("No group alone holds anything back.")


def silence(table: pa.Table, group: str, now: datetime) -> str:
    """How long a group without members has been silent; empty for a living one."""
    rows = table.filter(pc.equal(table["group_id"], group))
    if rows["group_state"][0].as_py() not in _DEAD:
        return ""
    last = pc.max(rows["last_commit_at"]).as_py()
    return "no member" if last is None else f"silent for {formats.duration(now - last)}"


def followers(screen: Screen) -> None:
    """What makes followers slow, most replicas first, in the words of the page Followers."""
    st.html('<div class="lw"><h2>Slowest followers</h2></div>')
    assert screen.findings is not None
    found = screen.findings
    if "slow_followers" not in found.manifest.tables:
        st.caption("Not known: an older release wrote the findings. Analyze again.")
        return
    units = found.derived("slow units", lambda: slow_units(found.table("slow_followers")))
    for unit in units[:ROWS]:
        routes.link("followers", plain(unit.text), cause=unit.cause)
    if not units:
        routes.link("followers", "No follower is slow.")
    elif len(units) > ROWS:
        count = formats.plural(len(units), "reason")
        routes.link("followers", f"All {count} why followers are slow")


def orphans(screen: Screen) -> None:
    """The folders that were last found to be known to nobody."""
    assert screen.findings is not None
    table = screen.findings.table("orphans")
    rows = newest_orphans(table, ROWS)
    if not rows:
        return
    st.html('<div class="lw"><h2>Newest orphans</h2></div>')
    for row in rows:
        label = (
            f"broker {row['broker_id']}, **{plain(name(row))}**: {formats.size(on_disk(row))}, "
            f"{plain(row['kind'])}, {row['verdict']}, "
            f"first seen {formats.ago(row['first_seen_at'], screen.now)}"
        )
        routes.link("orphans", label, folder=name(row), broker=str(row["broker_id"]))
    if table.num_rows > ROWS:
        routes.link("orphans", f"All {formats.plural(table.num_rows, 'orphan')} and their evidence")


def newest_orphans(orphans: pa.Table, limit: int) -> list[dict[str, Any]]:
    """Rows of the findings, those seen last for the first time first, then by size and name."""
    rows = orphans.to_pylist()
    rows.sort(key=lambda r: (r["broker_id"], r["log_dir"], r["directory"] or ""))
    rows.sort(key=lambda r: (r["first_seen_at"], on_disk(r) or 0), reverse=True)
    return list(rows[:limit])
