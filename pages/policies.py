"""Policies: what purges by itself, what would it have done, and who switched it on?"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import datetime, timedelta

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.core.words import first_letter_up
from dashboard.people import people
from dashboard.policies.service import switching
from dashboard.policies.service.switching import Serving, Standing, serving
from dashboard.purge.jobs import queue_refusals
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import Hold, PolicyState
from dashboard.settings.policies.policy import Policy
from dashboard.ui import policy_advice, policy_table
from dashboard.ui.components import markup, states
from dashboard.ui.components.markup import text
from dashboard.ui.policy_table import PolicyView
from dashboard.ui.purge import runs
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import access, context
from dashboard.ui.session.context import Screen
from dashboard.ui.session.header import header
from dashboard.views import formats, policy_texts
from dashboard.views.archive_texts import brought_back

_LIVE = timedelta(seconds=5)


def show() -> None:
    """The service, all policies, the chosen one in full, and what the repartition doctor sees."""
    screen = context.load()
    header(screen)
    states.notes(screen)
    own, others = policy_table.for_cluster(screen.settings, screen.cluster)
    if own:
        screen.snapshot.read("topics")
        st.fragment(states.guarded(show_all), run_every=_LIVE)(screen, own)
        show_one(screen, chosen(own))
    else:
        policy_advice.show_first(screen)
    show_undefined(screen)
    if others:
        st.caption(markup.plain(policy_texts.elsewhere(others)))
    states.guarded(policy_advice.show_repartition)(screen)


def show_all(screen: Screen, policies: Sequence[Policy]) -> None:
    """Whether a service runs, and a line per policy; redrawn by itself, and the whole page once the
    settings define others: what it drew is not what a service goes by.
    """
    if policy_table.for_cluster(screen.settings, screen.cluster)[0] != tuple(policies):
        st.rerun(scope="app")
    journal, now = open_journal(), utc_now()
    service = served(screen, journal)
    read_only = queue_refusals.stopped(screen.settings, journal) is not None
    st.html(policy_table.service_html(service, now, read_only))
    markup.draw(policy_table.alerts_html(journal.untold_alerts(screen.cluster.cluster_id), now))
    found = policy_table.views(journal, screen.cluster, policies, now)
    st.html(policy_table.table_html(found, service, now))


def served(screen: Screen, journal: Journal) -> Serving:
    """What is known of the cluster's service."""
    most = screen.settings.purge.most_service_silence
    return serving(journal, screen.cluster.cluster_id, most)


def chosen(policies: Sequence[Policy]) -> Policy:
    """The policy that the address names, or the reader chose; the first one else."""
    if len(policies) == 1:
        return policies[0]
    names = [policy.name for policy in policies]
    name = st.selectbox("Policy", names, key="policy", bind="query-params")
    return policies[names.index(name)]


def show_one(screen: Screen, policy: Policy) -> None:
    """One policy; its past week comes last, since it may take seconds to read."""
    with st.container(border=True):
        st.fragment(states.guarded(show_now), run_every=_LIVE)(screen, policy)
        switch(screen, policy)
    if screen.findings is None:
        st.caption("No analysis yet: bytes of the past week are spread evenly over offsets.")
    states.caught(show_past)(screen, policy)  # without it, as where Java is missing, the rest shows


def show_past(screen: Screen, policy: Policy) -> None:
    """What it would have done last week, by kept snapshots."""
    policy_advice.show_past(policy_advice.simulation(screen, policy), policy)


def show_now(screen: Screen, policy: Policy) -> None:
    """What it does, how it stands, what is held back, and its last runs."""
    journal, now = open_journal(), utc_now()
    (view,) = policy_table.views(journal, screen.cluster, [policy], now)
    st.html(f'<div class="lw"><h2>{text(policy.name)}</h2></div>')
    left, right = st.columns(2, gap="medium")
    left.html(policy_table.definition_html(view))
    with right:
        use = policy_table.used(journal, screen.cluster, view, now)
        st.html(policy_table.now_html(view, served(screen, journal), use, now))
        show_runs(view, now)
    markup.draw(policy_table.blocked_html(view))


def show_runs(view: PolicyView, now: datetime) -> None:
    """The newest runs, each a link to itself."""
    st.html('<div class="lw"><h3>Last runs <small>of this week</small></h3></div>')
    runs.links(runs.each(policy_table.last_runs(open_journal(), view)), now)
    rest = len(view.runs) - policy_table.LAST_RUNS
    if not view.runs:
        st.caption("None.")
    elif rest > 0:
        st.caption(f"and {formats.number(rest)} more: the page Audit lists them.")


# Policies that the journal has as on and the settings do not define: each can be switched off.


@st.fragment
@states.guarded
def show_undefined(screen: Screen) -> None:
    """One line and a button each; nothing where there is none. A fragment, as each switch is."""
    known = open_journal().policy_states(screen.cluster.cluster_id)
    defined = screen.settings.policies
    for state in switching.on_and_undefined(known.values(), defined, screen.cluster):
        _undefined(screen, state)
    error = st.session_state.pop("undefined-error", None)
    if isinstance(error, LowwaterError):
        states.show_error(error)


def _undefined(screen: Screen, state: PolicyState) -> None:
    with st.container(border=True):
        st.caption(
            markup.plain(
                f"⚠ Policy {state.name} is switched on (by {state.who}, "
                f"{formats.ago(state.at, utc_now())}), and the settings do not define it for "
                "this cluster: nothing of it runs. A service that sees that holds it, should it "
                "come back; switch it off if it is not to."
            )
        )
        if not access.only("operator", "Switching a policy off"):
            return
        left, right = st.columns([3, 2], vertical_alignment="bottom")
        who = access.ask_who(left, "Who", _undefined_who(state.name))
        right.button(
            f"Switch off {markup.plain(state.name)}",
            width="stretch",
            disabled=not who.strip(),
            key=f"undefined-off-{state.name}",
            on_click=_undefined_off,
            args=(screen, state.name, who),
        )


def _undefined_who(name: str) -> str:
    return f"undefined-who-{name}"


def _undefined_off(screen: Screen, name: str, who: str) -> None:
    """The callback; a refusal is shown below."""
    try:
        switching.switch_off(
            screen.settings, open_journal(), screen.cluster, name,
            who=access.who(_undefined_who(name), who),
            from_where=f"dashboard on {socket.gethostname()}", now=utc_now(),
        )  # fmt: skip
    except LowwaterError as error:
        st.session_state["undefined-error"] = error


# A policy's switch: on by its sentence, like a purge; off by one click.


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
        _on(screen, policy, standing, state)
    error = st.session_state.pop("policy-error", None)
    if isinstance(error, LowwaterError):
        states.show_error(error)
    if st.session_state.pop("policy-switched", False):
        st.rerun(scope="app")


def _on(screen: Screen, policy: Policy, standing: Standing, state: PolicyState | None) -> None:
    hold = state.hold if state and state.enabled else None
    st.html(_asked(policy, policy.confirmation(screen.called), standing, hold))
    left, middle, right = st.columns([3, 2, 2], vertical_alignment="bottom")
    typed = left.text_input("Confirmation", key=_field(policy), live=True, autocomplete="off")
    who = access.ask_who(middle, "Who", _WHO)
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


def _asked(policy: Policy, sentence: str, standing: Standing, hold: Hold | None) -> str:
    """What the sentence is typed for; of one that is held, why, in the words of its hold."""
    why = ""
    if standing == "changed":
        why = "Its definition changed since it was switched on: confirm it as it is now. "
    if hold is not None:
        again = f"{first_letter_up(hold.ask)}, then confirm it again."
        why += f"{text(first_letter_up(hold.why))}. {text(again)} "
    back = brought_back(kept=bool(policy.archive))
    return (
        f'<div class="lw">{why}Switched on, it purges by itself, again and again; records that are '
        f"deleted {back}. Type this sentence to confirm: "
        f"<code>{text(sentence)}</code></div>"
    )


def _off(screen: Screen, policy: Policy) -> None:
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    who = access.ask_who(left, "Who", _WHO)
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


_WHO = "policy-who"
_REACH = "The switch counts for this definition, on this cluster, in this machine's journal."


def why_not(screen: Screen, policy: Policy, typed: str, who: str) -> str:
    """Why the button is off, in words; empty when it is on."""
    try:
        queue_refusals.read_only(screen.settings, open_journal())
    except LowwaterError:
        return "Purges are switched off (read-only): no policy can be switched on."
    if not who.strip():
        return "Say who you are: the journal keeps it."
    if typed != policy.confirmation(screen.called):
        return "The button is enabled when the sentence matches."
    return ""


def _field(policy: Policy) -> str:
    return f"policy-confirm-{policy.name}"


def _switched(screen: Screen, policy: Policy, typed: str, who: str, on: bool) -> None:
    """The callback: what the button said, once, by the sentence and the name that stand there at
    the click (a second one finds none any more); refusals are shown below it.
    """
    where = f"dashboard on {socket.gethostname()}"
    journal, now = open_journal(), utc_now()
    try:
        if on:
            switching.switch_on(
                screen.settings, journal, screen.cluster, policy,
                typed=str(st.session_state.get(_field(policy), typed) or ""),
                who=access.who(_WHO, who), from_where=where, now=now,
            )  # fmt: skip
        else:
            switching.switch_off(
                screen.settings, journal, screen.cluster, policy.name,
                who=access.who(_WHO, who), from_where=where, now=now,
            )  # fmt: skip
    except LowwaterError as error:
        st.session_state["policy-error"] = error
        return
    st.session_state.pop(_field(policy), None)
    st.session_state["policy-switched"] = True


show()
