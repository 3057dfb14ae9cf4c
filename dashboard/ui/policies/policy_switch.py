"""A policy's switch: on by its sentence, like a purge; off by one click."""

from __future__ import annotations

import socket

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.people import people
from dashboard.policies.service import switching
from dashboard.policies.service.switching import Standing
from dashboard.purge.jobs import queue_refusals
from dashboard.settings.policies.policy import Policy
from dashboard.ui.components import states
from dashboard.ui.components.markup import text
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import access
from dashboard.ui.session.context import Screen


@st.fragment
@states.guarded
def switch(screen: Screen, policy: Policy) -> None:
    """The control that fits how the policy stands; a fragment, so that typing redraws only this."""
    journal = open_journal()
    state = journal.policy_states(screen.cluster.cluster_id).get(policy.name)
    standing = switching.standing(policy, state)
    if standing == "on":
        if access.only("operator", "Switching a policy off"):
            _off(screen, policy)
    elif access.only(people.deciding_role(screen.settings), "Switching a policy on"):
        _on(screen, policy, standing)
    error = st.session_state.pop("policy-error", None)
    if isinstance(error, LowwaterError):
        states.show_error(error)
    if st.session_state.pop("policy-switched", False):
        st.rerun(scope="app")


def _on(screen: Screen, policy: Policy, standing: Standing) -> None:
    st.html(_asked(policy.confirmation(screen.cluster.name), standing))
    left, middle, right = st.columns([3, 2, 2], vertical_alignment="bottom")
    typed = left.text_input(
        "Confirmation", key=f"policy-confirm-{policy.name}", live=True, autocomplete="off"
    )
    who = access.ask_who(middle, "Who", "policy-who")
    blocked = why_not(screen, policy, typed or "", who)
    with right.container(key="danger-policy"):
        st.button(
            "Switch on",
            type="primary",
            width="stretch",
            disabled=bool(blocked),
            key="policy-on",
            on_click=_switched,
            args=(screen, policy, typed or "", who, True),
        )
    st.caption(blocked or f"Ready. Purges begin when a service runs. {_REACH}")


_AGAIN = {
    "changed": "Its definition changed since it was switched on: confirm it as it is now. ",
    "held": "No service gave a sign of life for long. Make sure that nobody switched the policy "
    "off, or stopped every purge, which a restored journal would have forgotten; then confirm it "
    "again. ",
}


def _asked(sentence: str, standing: Standing) -> str:
    """What the sentence is typed for."""
    why = _AGAIN.get(standing, "")
    return (
        f'<div class="lw">{why}Switched on, it purges by itself, again and again; records that are '
        "deleted cannot be brought back. Type this sentence to confirm: "
        f"<code>{text(sentence)}</code></div>"
    )


def _off(screen: Screen, policy: Policy) -> None:
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    who = access.ask_who(left, "Who", "policy-who")
    right.button(
        "Switch off",
        width="stretch",
        disabled=not who.strip(),
        key="policy-off",
        on_click=_switched,
        args=(screen, policy, "", who, False),
    )
    st.caption(
        "No run of it begins after that; of one in flight, what was not sent is not sent any more."
        if who.strip()
        else "Say who you are: the journal keeps it."
    )


_REACH = "The switch counts for this definition, on this cluster, in this machine's journal."


def why_not(screen: Screen, policy: Policy, typed: str, who: str) -> str:
    """Why the button is off, in words; empty when it is on."""
    try:
        queue_refusals.read_only(screen.settings, open_journal())
    except LowwaterError:
        return "Purges are switched off (read-only): no policy can be switched on."
    if not who.strip():
        return "Say who you are: the journal keeps it."
    if typed != policy.confirmation(screen.cluster.name):
        return "The button is enabled when the sentence matches."
    return ""


def _switched(screen: Screen, policy: Policy, typed: str, who: str, on: bool) -> None:
    """The callback: what the button said, once; refusals are shown below it."""
    where = f"dashboard on {socket.gethostname()}"
    journal, now = open_journal(), utc_now()
    try:
        if on:
            switching.switch_on(
                screen.settings, journal, screen.cluster, policy,
                typed=typed, who=access.who(who), from_where=where, now=now,
            )  # fmt: skip
        else:
            switching.switch_off(
                screen.settings, journal, screen.cluster, policy.name,
                who=access.who(who), from_where=where, now=now,
            )  # fmt: skip
    except LowwaterError as error:
        st.session_state["policy-error"] = error
        return
    st.session_state.pop(f"policy-confirm-{policy.name}", None)
    st.session_state["policy-switched"] = True
