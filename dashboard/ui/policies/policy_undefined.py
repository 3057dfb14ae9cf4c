"""Policies that the journal has as on and the settings do not define: each can be switched off."""

from __future__ import annotations

import socket

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.policies.service import switching
from dashboard.purge.journal.journal_policies import PolicyState
from dashboard.ui.components import markup, states
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import access
from dashboard.ui.session.context import Screen
from dashboard.views import formats


@st.fragment
@states.guarded
def show(screen: Screen) -> None:
    """One line and a button each; nothing where there is none. A fragment, as each switch is."""
    known = open_journal().policy_states(screen.cluster.cluster_id)
    for state in switching.on_and_undefined(known.values(), screen.settings.policies):
        _one(screen, state)
    error = st.session_state.pop("undefined-error", None)
    if isinstance(error, LowwaterError):
        states.show_error(error)


def _one(screen: Screen, state: PolicyState) -> None:
    with st.container(border=True):
        st.caption(
            markup.plain(
                f"⚠ Policy {state.name} is switched on (by {state.who}, "
                f"{formats.ago(state.at, utc_now())}), and the settings do not define it: nothing "
                "of it runs. A service that sees that holds it, should it come back; switch it off "
                "if it is not to."
            )
        )
        if not access.only("operator", "Switching a policy off"):
            return
        left, right = st.columns([3, 2], vertical_alignment="bottom")
        who = access.ask_who(left, "Who", f"undefined-who-{state.name}")
        right.button(
            f"Switch off {markup.plain(state.name)}",
            width="stretch",
            disabled=not who.strip(),
            key=f"undefined-off-{state.name}",
            on_click=_off,
            args=(screen, state.name, who),
        )


def _off(screen: Screen, name: str, who: str) -> None:
    """The callback; a refusal is shown below."""
    try:
        switching.switch_off(
            screen.settings, open_journal(), screen.cluster, name, who=access.who(who),
            from_where=f"dashboard on {socket.gethostname()}", now=utc_now(),
        )  # fmt: skip
    except LowwaterError as error:
        st.session_state["undefined-error"] = error
