"""The Overview's short lists: five rows each, every row a link to where it is acted on."""

from __future__ import annotations

import re

import streamlit as st

from dashboard.ui import formats, routes
from dashboard.ui.context import Screen
from dashboard.ui.followers import Follower, furthest_behind
from dashboard.ui.headline import blockers_by_group

ROWS = 5
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
    for group, freed in rows:
        label = f"**{plain(group)}** holds back {formats.size(freed)}"
        routes.link("reclaimable", label, group=group)
    if not rows:
        st.caption("No group alone holds anything back.")


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


def _furthest(screen: Screen) -> list[Follower]:
    tables = screen.snapshot
    return furthest_behind(tables.table("replicas"), tables.table("topics"), ROWS)
