"""The search of every page: a topic or a group by a part of its name."""

from __future__ import annotations

import streamlit as st

from dashboard.ui.components.markup import plain
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen
from dashboard.ui.session.loading import findings_of
from dashboard.views.search import Match, matches, meant
from dashboard.views.topic_rows import groups_of

_KEY = "lw-find"
_ASKED = "lw-find-asked"
_SHOWN = 8


def box(screen: Screen) -> None:
    """Enter leads to the topic or group that is meant; of several, links below the box."""
    typed = st.text_input(
        "Find a topic or group",
        key=_KEY,
        type="search",
        placeholder="Find a topic or group",
        label_visibility="collapsed",
        on_change=_asked,
    )
    asked = st.session_state.pop(_ASKED, False)
    if not typed or screen.findings is None:
        return
    found = _found(screen, typed)
    match = meant(typed, found)
    if match and asked:
        routes.go(match.kind, name=match.name)
    if not found:
        st.caption("No topic or group of that name.")
    for kind, name in found[:_SHOWN]:
        routes.link(kind, f"{kind} {plain(name)}", name=name)
    if len(found) > _SHOWN:
        st.caption(f"and {len(found) - _SHOWN} more")


def _asked() -> None:
    st.session_state[_ASKED] = True


def _found(screen: Screen, typed: str) -> list[Match]:
    tables = findings_of(screen)
    groups = tables.derived("groups", lambda: groups_of(tables.table("holds")))
    return matches(typed, screen.snapshot.table("topics")["topic"].to_pylist(), groups)
