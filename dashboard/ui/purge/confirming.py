"""Steps 3 and 4 of a purge: the mode, and the sentence to type."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from datetime import datetime

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import ApprovalRequired, LowwaterError, RefusedError
from dashboard.domain.model import MODES
from dashboard.people import people
from dashboard.purge.forecast import forecast as forecasts
from dashboard.purge.forecast import text as forecast_text
from dashboard.purge.forecast.forecast import Forecast
from dashboard.purge.jobs import queue, queue_refusals
from dashboard.ui.components import markup, states
from dashboard.ui.components.markup import text
from dashboard.ui.purge.drafting import Draft, forget, replaced
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import access, context, routes
from dashboard.ui.session.context import Screen
from dashboard.views import formats

# Step 3 of a purge: the mode, explained by what the replicas do just now.

NAMES = {
    "wait-all": "Wait for all replicas",
    "leader-only": "Leader only",
    "leader-only-verified": "Leader only, verified",
}
_KEY = "lw-forecast"
_CHOSEN = "plan-mode"
_MOST_LINES = 6
_WITHOUT = {
    "wait-all": "Answers when every live replica has deleted: the safest, and the default.",
    "leader-only": "For brokers that speak DeleteRecords v3; others are refused with "
    "UNSUPPORTED_VERSION and nothing is sent to them. Records can come back.",
    "leader-only-verified": "Any broker: a request that does not wait, then the leader is read "
    "back. Records can come back.",
}

Outcome = Forecast | LowwaterError


def choose_mode(screen: Screen, draft: Draft) -> str:
    """Draw the forecast and the modes; the mode chosen. Nothing but a click ever changes it, unless
    every leader has come to refuse it.
    """
    left, right = st.columns([6, 1], vertical_alignment="center")
    with right:
        again = st.button(
            "Refresh", key="forecast-refresh", width="stretch", help="Ask the brokers again."
        )
    seen = _forecast(screen, draft, again=again)
    left.html(forecast_html(seen, utc_now()))
    captions, refused = dict(_WITHOUT), []
    if isinstance(seen, Forecast):
        told = forecast_text.modes(seen)
        captions = {m.mode: markup.plain(f"{m.predicted} {m.risk}") for m in told}
        refused = [m.mode for m in told if m.refused]
    if st.session_state.get(_CHOSEN) in refused:
        del st.session_state[_CHOSEN]
    chosen = _radio("Mode", [mode for mode in MODES if mode not in refused], captions, _CHOSEN)
    if refused:
        _radio("Refused just now", refused, captions, "plan-mode-refused", disabled=True)
    return chosen


def _radio(
    label: str,
    modes: Sequence[str],
    captions: Mapping[str, str],
    key: str,
    *,
    disabled: bool = False,
) -> str:
    chosen = st.radio(
        label,
        modes,
        index=None if disabled else 0,
        format_func=NAMES.__getitem__,
        captions=[captions[mode] for mode in modes],
        key=key,
        disabled=disabled,
        label_visibility="visible" if disabled else "collapsed",
    )
    return str(chosen)


def forecast_html(seen: Outcome, now: datetime) -> str:
    """What to know before choosing: the recommendation, who holds it up, when that was read."""
    if isinstance(seen, LowwaterError):
        return (
            f'<div class="lw lw-state warn" role="status"><p>How long it would take is not known: '
            f"{text(seen.message)} ({text(seen.code)}).</p>"
            f"<p><b>Next:</b> {text(seen.next_step)}</p></div>"
        )
    listed = forecast_text.details(seen)
    lines = "".join(f"<li>{text(said)}</li>" for said in listed[:_MOST_LINES])
    rest = len(listed) - _MOST_LINES
    lines += f"<li>and {rest} more; lowwater preview --live lists them</li>" if rest > 0 else ""
    advised = "".join(f"<p>{text(said)}</p>" for said in forecast_text.advised(seen)[:_MOST_LINES])
    warn = " warn" if seen.timing_out or seen.unusable else ""
    return (
        f'<div class="lw lw-state{warn}" role="status"><p>{text(forecast_text.headline(seen))} '
        f"<small>Read from the replicas {markup.ago(seen.read_at, now)}.</small></p>"
        f"{f'<ul>{lines}</ul>' if lines else ''}{advised}</div>"
    )


def _forecast(screen: Screen, draft: Draft, *, again: bool) -> Outcome:
    """The forecast of this draft: read once, and when asked for."""
    kept = st.session_state.get(_KEY)
    if kept and kept[0] == draft.token and not again:
        found: Outcome = kept[1]
        return found
    with st.spinner("Reading replicas, log dirs and versions …"):
        found = _read(screen, draft)
    st.session_state[_KEY] = (draft.token, found)
    return found


def _read(screen: Screen, draft: Draft) -> Outcome:
    try:
        return forecasts.forecast(
            screen.settings, screen.settings.data, screen.cluster.cluster_id, draft.plan
        )
    except LowwaterError as error:
        return error


# Step 4 of a purge: the sentence to type, who, and the one button that queues it.

_WHO = "confirm-who"
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
    typed = left.text_input("Confirmation", key=_field(draft), live=True, autocomplete="off")
    who = access.ask_who(middle, "Who", _WHO)
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
            args=(draft, mode, who),
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


def _field(draft: Draft) -> str:
    return f"confirm-{draft.token}"


def _queue(draft: Draft, mode: str, who: str) -> None:
    """The callback: insert the run once, whatever is clicked; a worker carries it out.

    The arguments are the page's as it was drawn last. Streamlit makes one run of all that was
    clicked while it was busy, so what is chosen and typed now is asked for at the click.
    Where a second person must agree, the request is shown instead, until somebody decides.
    """
    try:
        _refuse_changed(draft, mode)
        typed = str(st.session_state.get(_field(draft)) or "")
        run_id = queue.enqueue(
            context.settings(),
            open_journal(),
            draft.plan,
            mode=mode,
            confirm=typed,
            sha256=draft.plan.sha256,
            who=access.who(_WHO, who),
            token=draft.token,
            from_where=f"dashboard on {socket.gethostname()}",
        )
    except ApprovalRequired as told:
        _leave_for("request", told.request_id)
    except LowwaterError as error:
        # Queued all the same: its worker could not be started, or this click wanted another mode.
        queued = open_journal().queued_as(draft.token)
        st.session_state["wish-error" if queued else "queue-error"] = error
        if queued:
            _leave_for("run", queued)
    else:
        _leave_for("run", run_id)


def _refuse_changed(draft: Draft, mode: str) -> None:
    """CHOICE_CHANGED: another mode, or another plan, is on its way to the page. Neither is there
    any more after a first click, whose second one gets the same run.
    """
    chosen = st.session_state.get(_CHOSEN, mode)
    if chosen != mode:
        raise RefusedError(
            f"the mode was changed from '{NAMES[mode]}' to '{NAMES[chosen]}' while the page was "
            "busy: nothing was queued",
            "Look at the mode in step 3, then click again.",
            code="CHOICE_CHANGED",
        )
    if replaced(draft):
        raise RefusedError(
            f"plan {draft.plan.plan_id} was made anew while the page was busy: nothing was queued",
            "Look at the preview in step 2, then confirm it.",
            code="CHOICE_CHANGED",
        )


def _leave_for(kind: str, name: str) -> None:
    forget()
    st.session_state["queue-done"] = True
    routes.stay(**{kind: name})
