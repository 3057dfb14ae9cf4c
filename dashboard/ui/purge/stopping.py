"""The switch that stops every purge: at hand on Audit, one click deeper where purges are made."""

from __future__ import annotations

import streamlit as st

from dashboard.core.errors import LowwaterError
from dashboard.purge.jobs import queue
from dashboard.purge.journal.journal import Journal
from dashboard.settings import current
from dashboard.ui.components import markup, states
from dashboard.ui.purge.runs import open_journal, past_runs
from dashboard.ui.session import access, context, routes
from dashboard.views import formats

_MEANS = "Queued and running purges, of every cluster, and policies stop before their next request."
_SWEEPS = "Sweeps on brokers' hosts read that host's settings: write read_only = true there."


def switch(journal: Journal) -> None:
    """Stop every purge at once, or allow them again: two buttons, so that a click on one that was
    drawn a moment ago, or a second one in its place, never means the other.
    """
    stopped = journal.stopped()
    if (reason := current.why_read_only(context.settings())) is not None:
        st.caption(markup.plain(f"⏸ Every purge is switched off: {reason}."))
        return
    if not access.may("approver"):
        st.caption("⏸ Every purge is switched off." if stopped else "Approvers may stop it all.")
        return
    st.button(
        "Stop every purge",
        key="stop-every-purge",
        width="stretch",
        disabled=stopped is not None,
        help=f"{_MEANS} {_SWEEPS}",
        on_click=_switch,
        args=(True,),
    )
    if stopped:
        _show_allowing(*stopped)
    _show_error()


def offer() -> None:
    """On Purge and beside a run that is open: what it would stop, and the button, behind a first
    click that does nothing yet. Nothing for those who may not, or where all is stopped already by
    the settings; the way to Audit, where an approver allows purges again.
    """
    if current.why_read_only(context.settings()) is not None or not access.may("approver"):
        return
    if open_journal().stopped():
        routes.link("audit", "⏸ Every purge is stopped: allow them again on Audit")
        return
    with st.popover("Stop every purge", key="stopping"):
        waiting = sum(run.open for run in past_runs())
        count = formats.plural(waiting, "purge") if waiting else "No purge"
        now = f"{count} of this journal {'are' if waiting > 1 else 'is'} open now."
        st.caption(f"{now} {_MEANS} What was sent stays sent. {_SWEEPS}")
        with st.container(key="danger-stop"):
            st.button(
                "Stop every purge now",
                key="stop-every-purge",
                type="primary",
                width="stretch",
                on_click=_switch,
                args=(True,),
            )
    _show_error()


def _show_error() -> None:
    error = st.session_state.pop("switch-error", None)
    if isinstance(error, LowwaterError):
        states.show_error(error)


def _show_allowing(who: str, at: str) -> None:
    """Below the button that stopped them: a tick that belongs to this one stop, then the button."""
    st.caption(f"⏸ Every purge is switched off, by {markup.plain(who)} at {markup.plain(at)}.")
    sure = st.checkbox("What it was stopped for is over", key=_sure(at))
    st.button(
        "Allow purges again",
        key="allow-purges-again",
        width="stretch",
        disabled=not sure,
        help="New purges can be queued again.",
        on_click=_switch,
        args=(False,),
    )


def _sure(stopped_at: str) -> str:
    """The key of the tick that allows purges again after this stop, and after no other one."""
    return f"stop-is-over-{stopped_at}"


def _switch(stop: bool) -> None:
    """The callback: it allows only where the newest stop is the one that was ticked as over."""
    journal = open_journal()
    stopped = journal.stopped()
    if not stop and (stopped is None or not st.session_state.get(_sure(stopped[1]))):
        return
    try:
        queue.switch_read_only(context.settings(), journal, stop, access.actor())
    except LowwaterError as error:
        st.session_state["switch-error"] = error
