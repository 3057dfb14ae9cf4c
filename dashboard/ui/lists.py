"""The Overview's short lists: five rows each, every row a link to where it is acted on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.ui import formats, routes
from dashboard.ui.context import Screen
from dashboard.ui.followers import Follower, furthest_behind
from dashboard.ui.headline import blockers_by_group

ROWS = 5
_DEAD = ("Empty", "Dead")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:])")


def plain(name: str) -> str:
    """A name as markdown text: Kafka allows underscores, dots and dashes in it."""
    return _MARKDOWN.sub(r"\\\1", name)


def blockers(screen: Screen) -> None:
    """The groups whose waiver would free most."""
    st.html('<div class="lw"><h2>Largest blockers</h2></div>')
    assert screen.findings is not None
    rows = blockers_by_group(screen.findings.table("blockers"), ROWS)
    rows = [(group, freed) for group, freed in rows if freed > 0]
    table = screen.findings.table("blockers")
    for group, freed in rows:
        silent = silence(table, group, screen.now)
        label = f"**{plain(group)}** holds back {formats.size(freed)}{silent and f', {silent}'}"
        routes.link("reclaimable", label, group=group)
    if not rows:
        st.caption("No group alone holds anything back.")


def silence(table: pa.Table, group: str, now: datetime) -> str:
    """How long a group without members has been silent; empty for a living one."""
    rows = table.filter(pc.equal(table["group_id"], group))
    if rows["group_state"][0].as_py() not in _DEAD:
        return ""
    last = pc.max(rows["last_commit_at"]).as_py()
    return "no member" if last is None else f"silent for {formats.duration(now - last)}"


def followers(screen: Screen) -> None:
    """The follower replicas that trail their leaders most."""
    st.html('<div class="lw"><h2>Followers furthest behind</h2></div>')
    rows: list[Follower] = screen.snapshot.derived("furthest-behind", lambda: _furthest(screen))
    for row in rows:
        where = f"{plain(row.topic)}\\-{row.partition}"
        out = "" if row.in_sync else ", not in sync"
        label = (
            f"broker {row.broker_id}, **{where}**: {formats.number(row.lag_records)} records{out}"
        )
        routes.link("reclaimable", label, topic=row.topic)
    if not rows:
        st.caption("Every follower has reached its leader's log end.")


def orphans(screen: Screen) -> None:
    """The folders that were last found to be known to nobody."""
    assert screen.findings is not None
    rows = newest_orphans(screen.findings.table("orphans"), ROWS)
    if not rows:
        return
    st.html('<div class="lw"><h2>Newest orphans</h2></div>')
    for row in rows:
        name = row["directory"] or f"{row['topic']}-{row['partition']}"
        st.markdown(
            f"broker {row['broker_id']}, **{plain(name)}**: {formats.size(orphan_size(row))}, "
            f"{plain(row['kind'])}, {row['verdict']}, "
            f"first seen {formats.ago(row['first_seen_at'], screen.now)}"
        )


def newest_orphans(orphans: pa.Table, limit: int) -> list[dict[str, Any]]:
    """Rows of the findings, those seen last for the first time first, then by size and name."""
    rows = orphans.to_pylist()
    rows.sort(key=lambda r: (r["broker_id"], r["log_dir"], r["directory"] or ""))
    rows.sort(key=lambda r: (r["first_seen_at"], orphan_size(r) or 0), reverse=True)
    return list(rows[:limit])


def orphan_size(row: Mapping[str, Any]) -> int | None:
    """What the disk gave for it; without an inventory the bytes of its log."""
    found: int | None = row["allocated_bytes"]
    return row["size_bytes"] if found is None else found


def _furthest(screen: Screen) -> list[Follower]:
    tables = screen.snapshot
    return furthest_behind(tables.table("replicas"), tables.table("topics"), ROWS)
