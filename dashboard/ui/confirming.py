"""Steps 3 and 4 of a purge: the mode with its predicted wait, and the sentence to type."""

from __future__ import annotations

import socket

import streamlit as st

from dashboard.clock import utc_now
from dashboard.errors import LowwaterError
from dashboard.purge import queue
from dashboard.purge.journal_rows import MODES
from dashboard.ui import context, formats, states
from dashboard.ui.context import Screen
from dashboard.ui.drafting import Draft, forget
from dashboard.ui.runs import open_journal
from dashboard.ui.wait_forecast import Forecast, forecast

_MODES = {
    "wait-all": "Wait for all replicas",
    "leader-only": "Leader only",
    "leader-only-verified": "Leader only, verified",
}
_LEADER = (
    "For brokers that speak DeleteRecords v3; others answer UNSUPPORTED_VERSION and nothing is "
    "sent to them. Followers are watched afterwards."
)
_VERIFIED = (
    "Any broker: a request with timeout 0, then the leader is read back. A leader that dies "
    "before its followers fetch can bring records back."
)


def choose_mode(screen: Screen, draft: Draft) -> str:
    """Draw the modes, each with what it waits for."""
    tables = screen.snapshot
    keys = [p.key for p in draft.plan.free_partitions]
    seen = forecast(tables.table("partitions"), tables.table("topics"), keys)
    captions = {
        "wait-all": wait_all_caption(seen, screen),
        "leader-only": _LEADER,
        "leader-only-verified": _VERIFIED,
    }
    chosen = st.radio(
        "Mode",
        MODES,
        format_func=lambda mode: _MODES[mode],
        captions=[captions[mode] for mode in MODES],
        key="plan-mode",
        label_visibility="collapsed",
    )
    return str(chosen)


def wait_all_caption(seen: Forecast, screen: Screen) -> str:
    """What waiting for all would mean, for these partitions and followers."""
    quick = f"About half a second for {formats.plural(seen.quick, 'partition')} in sync"
    if not seen.slow:
        return f"{quick}. The proof is complete when it answers; the safest, and the default."
    brokers = ", ".join(str(broker) for broker in seen.behind)
    limit = formats.duration(screen.settings.purge.request_timeout)
    return (
        f"{quick}; {formats.plural(seen.slow, 'partition')} would wait for broker {brokers}, up "
        f"to {limit}. They travel in a request of their own."
    )


@st.fragment
@states.guarded
def confirm(draft: Draft, mode: str) -> None:
    """The sentence, who, and the one red button; a fragment, so that typing redraws only this."""
    plan = draft.plan
    st.html(
        f'<div class="lw">Type this sentence to confirm: <code>{plan.confirmation}</code></div>'
    )
    left, middle, right = st.columns([3, 2, 2], vertical_alignment="bottom")
    typed = left.text_input(
        "Confirmation", key=f"confirm-{draft.token}", live=True, autocomplete="off"
    )
    who = middle.text_input("Who", value=context.settings().operator, key="confirm-who")
    blocked = why_not(draft, typed or "", who or "")
    topics = len({p.topic for p in plan.free_partitions})
    with right.container(key="danger-queue"):
        st.button(
            f"Purge {formats.plural(topics, 'topic')}",
            type="primary",
            width="stretch",
            disabled=bool(blocked),
            key="queue-run",
            on_click=_queue,
            args=(draft, mode, typed or "", (who or "").strip()),
        )
    st.caption(blocked or "Ready. It runs in its own process, and this page follows it.")
    error = st.session_state.pop("queue-error", None)
    if isinstance(error, LowwaterError):
        states.show_error(error)
    if st.session_state.pop("queue-done", False):
        st.rerun(scope="app")


def why_not(draft: Draft, typed: str, who: str) -> str:
    """Why the button is off, in words; empty when it is on."""
    plan = draft.plan
    if not plan.free_partitions:
        return "No partition is free of guards: nothing can be sent."
    if context.settings().read_only or open_journal().read_only():
        return "Purges are switched off (read-only)."
    if plan.expired(utc_now()):
        return "The plan has expired: preview it again."
    if not who.strip():
        return "Say who you are: the journal keeps it."
    if typed != plan.confirmation:
        return "The button is enabled when the sentence matches."
    return ""


def _queue(draft: Draft, mode: str, typed: str, who: str) -> None:
    """The callback: insert the run once, whatever is clicked; a worker carries it out."""
    try:
        run_id = queue.enqueue(
            context.settings(),
            open_journal(),
            draft.plan,
            mode=mode,
            confirm=typed,
            sha256=draft.plan.sha256,
            who=who,
            token=draft.token,
            from_where=f"dashboard on {socket.gethostname()}",
        )
    except LowwaterError as error:
        st.session_state["queue-error"] = error
        return
    forget()
    st.session_state["queue-done"] = True
    st.query_params.clear()
    st.query_params["run"] = run_id
