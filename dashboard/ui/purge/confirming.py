"""Step 4 of a purge: the sentence to type, who, and the one button that queues it."""

from __future__ import annotations

import socket

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import ApprovalRequired, LowwaterError
from dashboard.people import people
from dashboard.purge.jobs import queue, queue_refusals
from dashboard.ui.components import markup, states
from dashboard.ui.purge.drafting import Draft, forget
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import access, context
from dashboard.views import formats

_READY = "Ready. It runs in its own process, and this page follows it."


@st.fragment
@states.guarded
def confirm(draft: Draft, mode: str) -> None:
    """The sentence, who, and the one red button; a fragment, so that typing redraws only this."""
    plan = draft.plan
    if not access.only("operator", "Purging"):
        return
    st.html(
        '<div class="lw">Type this sentence to confirm: '
        f"<code>{markup.text(plan.confirmation)}</code></div>"
    )
    left, middle, right = st.columns([3, 2, 2], vertical_alignment="bottom")
    typed = left.text_input(
        "Confirmation", key=f"confirm-{draft.token}", live=True, autocomplete="off"
    )
    who = access.ask_who(middle, "Who", "confirm-who")
    blocked = why_not(draft, typed or "", who)
    topics = formats.plural(len({p.topic for p in plan.free_partitions}), "topic")
    asks = people.second_person(context.settings())
    with right.container(key="danger-queue"):
        st.button(
            f"Ask to purge {topics}" if asks else f"Purge {topics}",
            type="primary",
            width="stretch",
            disabled=bool(blocked),
            key="queue-run",
            on_click=_queue,
            args=(draft, mode, typed or "", who.strip()),
        )
    ready = "Ready. Somebody else must approve it then." if asks else _READY
    st.caption(markup.plain(blocked or ready))
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
    if (reason := queue_refusals.stopped(context.settings(), open_journal())) is not None:
        return f"Purges are off (read-only): {reason}."
    if plan.expired(utc_now()):
        return "The plan has expired: preview it again."
    if not who.strip():
        return "Say who you are: the journal keeps it."
    if typed != plan.confirmation:
        return "The button is enabled when the sentence matches."
    return ""


def _queue(draft: Draft, mode: str, typed: str, who: str) -> None:
    """The callback: insert the run once, whatever is clicked; a worker carries it out.

    Where a second person must agree, the request is shown instead, until somebody decides.
    """
    try:
        run_id = queue.enqueue(
            context.settings(),
            open_journal(),
            draft.plan,
            mode=mode,
            confirm=typed,
            sha256=draft.plan.sha256,
            who=access.who(who),
            token=draft.token,
            from_where=f"dashboard on {socket.gethostname()}",
        )
    except ApprovalRequired as told:
        _leave_for("request", told.request_id)
    except LowwaterError as error:
        st.session_state["queue-error"] = error
    else:
        _leave_for("run", run_id)


def _leave_for(kind: str, name: str) -> None:
    forget()
    st.session_state["queue-done"] = True
    st.query_params.clear()
    st.query_params[kind] = name
