"""Declare who reads a topic: owner, whether its groups are all its readers, replay window."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from dashboard import people
from dashboard.clock import format_time, utc_now
from dashboard.errors import LowwaterError
from dashboard.settings import declaration
from dashboard.snapshots import ClusterStore
from dashboard.ui import access, context, formats
from dashboard.ui.context import Screen
from dashboard.ui.markup import plain
from dashboard.ui.picking import pick
from dashboard.ui.runs import open_journal

_WINDOWS = {"0s": "none", "1h": "1 hour", "24h": "1 day", "3d": "3 days", "7d": "7 days"}
_PRESELECTED = 10


def declare_readers(screen: Screen, label: str, topics: Sequence[str]) -> None:
    """A popover with the form; what was declared counts from the next analysis and plan on."""
    with st.popover(label, type="tertiary"):
        if not access.only("operator", "Declaring readers"):
            return
        st.html(
            '<div class="lw"><p>Committed by all groups is not yet wanted by nobody: mirrors, '
            "restores and stream checkpoints read without committing. Declare it where you "
            "know.</p></div>"
        )
        with st.form("declare-form", border=False):
            pick(
                "Topics", topics, "topic", "declare-topics",
                default=topics if len(topics) <= _PRESELECTED else (),
            )  # fmt: skip
            st.text_input("Owner of the data", key="declare-owner", placeholder="team-checkout")
            st.checkbox("Its groups are all its readers", key="declare-readers")
            st.selectbox(
                "Replay window: keep what is younger, even when all have read it",
                list(_WINDOWS), format_func=_WINDOWS.__getitem__, key="declare-window",
            )  # fmt: skip
            st.text_input(
                "Why you are sure", key="declare-reason", placeholder="asked both teams on Monday"
            )
            access.ask_who(st.container(), "Your name", "declare-name")
            st.form_submit_button("Declare", on_click=_save, args=(screen.cluster,))
        message = st.session_state.pop("declare-message", None)
        if message:
            st.caption(plain(message))


def merged(
    known: Sequence[dict[str, str]],
    topics: Sequence[str],
    *,
    owner: str,
    readers: str,
    replay_window: str,
    name: str,
    reason: str,
    now: datetime,
) -> list[dict[str, str]]:
    """The declarations with those of `topics` replaced, sorted. Raises SettingsError."""
    entry = {
        "owner": owner,
        "readers": readers,
        "replay_window": replay_window,
        "declared_by": name,
        "declared_at": format_time(now),
        "reason": reason,
    }
    for topic in topics:
        declaration(topic, entry, f"the declaration of {topic}")
    kept = [row for row in known if row["glob"] not in topics]
    return sorted([*kept, *({"glob": t, **entry} for t in topics)], key=lambda row: row["glob"])


def _save(cluster: ClusterStore) -> None:
    state = st.session_state
    topics = list(state["declare-topics"])
    owner, name, reason = (
        state[f"declare-{field}"].strip() for field in ("owner", "name", "reason")
    )
    if not topics or not owner or not name or not reason:
        state["declare-message"] = (
            "Not saved: choose topics and give an owner, why you are sure and your name."
        )
        return
    now = utc_now()
    try:
        who = access.who(name)
        name = people.require(context.settings(), who, "operator", "declare readers")
        rows = merged(
            cluster.declarations(),
            topics,
            owner=owner,
            readers="groups" if state["declare-readers"] else "unknown",
            replay_window=state["declare-window"],
            name=name,
            reason=reason,
            now=now,
        )
        # Chained first: a declaration that counts is one that the journal knows.
        open_journal().declare(
            [row for row in rows if row["glob"] in topics],
            cluster_id=cluster.cluster_id,
            from_where=f"dashboard on {socket.gethostname()}",
            now=now,
        )
        cluster.write_declarations(rows)
    except LowwaterError as error:
        state["declare-message"] = f"Not saved: {error.message}. {error.next_step}"
        return
    count = formats.plural(len(topics), "topic")
    state["declare-message"] = f"Declared {count}; it counts from the next analysis and plan on."
