"""Purge: what exactly will happen, and then: what happened?"""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.purge.jobs import queue
from dashboard.purge.journal.rows import RunView
from dashboard.purge.plan.plan import Plan
from dashboard.ui.components import markup, states
from dashboard.ui.purge import (
    confirming,
    drafting,
    looking,
    plan_view,
    run_view,
    runs,
    second_person,
    stopping,
)
from dashboard.ui.purge.confirming import choose_mode
from dashboard.ui.purge.drafting import Draft, Request, choose_target
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import access, context, routes
from dashboard.ui.session.context import Screen
from dashboard.ui.session.header import header
from dashboard.views import formats
from dashboard.views.archive_texts import brought_back

_LIVE = timedelta(seconds=1.5)


def show() -> None:
    """A run when the address names one, else the four steps to it."""
    if (screen := second_person.load()) is None:
        return
    header(screen)
    run_id = routes.param("run")
    if run_id:
        # A link from this page to itself changes the query but not the browser's address line.
        st.query_params["run"] = run_id
        show_run(screen, run_id)
        return
    if request_id := routes.param("request"):
        st.query_params["request"] = request_id
        second_person.show(screen, request_id)
        return
    states.notes(screen)
    with st.container(horizontal=True, horizontal_alignment="right"):
        stopping.offer()
    second_person.waiting(screen)
    screen.snapshot.read("topics", "partitions")
    if screen.findings:
        screen.findings.read("holds")
    with st.container(border=True):
        step(1, "Target", "which records may go")
        handed = None if routes.asked_topics() else drafting.handed(screen)
        request = show_handed(handed) if handed else choose_target(screen)
        draft = preview_of(screen, request) if request else None
        if request is None:
            st.button("Preview", key="preview-not-yet", disabled=True)
            st.caption(
                "Choose what to purge first. A preview reads the cluster and changes nothing."
            )
    if request is None or draft is None:
        runs.recent(screen)
        return
    with st.container(border=True):
        left = formats.duration(draft.plan.expires_at - utc_now())
        step(2, "Preview", f"plan {draft.plan.plan_id}, read from the cluster, valid for {left}")
        plan_view.show(draft.plan)
        drafting.offer(screen, request, draft)
        looking.offer_plan(screen, draft.plan)
    if why := nothing_to_purge(draft.plan):
        states.show("Nothing of it can be purged", *why)
        return
    with st.container(border=True):
        step(3, "Mode", "whom to wait for")
        mode = choose_mode(screen, draft)
    with st.container(border=True):
        back = brought_back(kept=draft.plan.archive is not None)
        step(4, "Confirm", f"records that are deleted {back}")
        confirming.confirm(draft, mode)


def nothing_to_purge(plan: Plan) -> tuple[str, str] | None:
    """Why a confirmation would delete nothing, and the next step; None: it would."""
    if not plan.free_partitions:
        return (
            "Every partition of this plan is guarded; the reasons stand above.",
            "Lift what may be lifted in step 1, or choose other topics.",
        )
    if any(p.records != 0 for p in plan.free_partitions) or any(w.move for w in plan.waivers):
        return None
    return (
        "No record lies below the targets of the partitions that are free of guards: all of that "
        "is gone already.",
        "Choose another target in step 1, or other topics.",
    )


def step(number: int, title: str, what: str) -> None:
    """A step's heading."""
    st.html(f'<div class="lw"><h2>{number} · {title} <small>{what}</small></h2></div>')


def show_handed(request: Request) -> Request:
    """What another page chose, each partition with its target; one click goes back to choosing."""
    left, right = st.columns([5, 1], vertical_alignment="center")
    more = [f"waived: {', '.join(request.waived)}"] if request.waived else []
    more += [f"lifted: {', '.join(request.lifted)}"] if request.lifted else []
    left.html(
        f'<div class="lw"><p><b>{markup.text(request.origin)}</b> '
        f"<small>{markup.text(' · '.join(more))}</small></p></div>"
    )
    right.button("Choose others", key="drop-handed", on_click=drafting.forget)
    return request


def preview_of(screen: Screen, request: Request) -> Draft | None:
    """The draft of this request; read when asked for, and at once when a page sent topics here."""
    found = drafting.current(screen, request)
    sent_here = tuple(routes.asked_topics()) == request.topics
    first = sent_here and found is None and st.session_state.get("lw-arrived") != request.name
    asked = st.button("Preview", key="preview", type="secondary" if found or first else "primary")
    if not asked and not first:
        return found
    st.session_state["lw-arrived"] = request.name
    try:
        with st.spinner("Reading offsets and groups from the cluster …"):
            made = drafting.draft(screen, request)
    except LowwaterError as error:
        states.show_error(error)
        return None
    return made


def show_run(screen: Screen, run_id: str) -> None:
    """The run, live while it is open or its receipt is not final."""
    view = open_journal().run(run_id)
    here = second_person.is_here(screen, second_person.run_named(view.run))
    live = still_moving(view)
    every = _LIVE if live else None
    st.fragment(states.guarded(follow), run_every=every)(screen, run_id, live, here)
    if here:
        st.button("Plan another purge", key="plan-another", on_click=routes.stay)


def follow(screen: Screen, run_id: str, live: bool, here: bool) -> None:
    """One look at the run; when it stops moving, the page is drawn once more and rests. What acts,
    and what is read of brokers, is for one that is of the cluster that is shown, and so `here`.
    """
    journal = open_journal()
    if live:
        queue.respawn_stale(screen.settings, journal)
    view = journal.run(run_id)
    run_view.show(view, acts=here)
    if view.run.open and here:
        run_view.requests_now(screen, view)
    if view.run.open and here and access.only("operator", "Pausing or cancelling"):
        show_controls(view)
    replanned = st.session_state.pop(routes.REPLANNED, False)
    if replanned or (live and not still_moving(view)):
        st.rerun(scope="app")


def still_moving(view: RunView) -> bool:
    """Whether the worker may still add something: open, or watched for its receipt."""
    until = view.run.watched_until
    watched = until is not None and utc_now() < until and not view.run.receipt_final
    return view.run.open or watched


def show_controls(view: RunView) -> None:
    """Pause, resume, cancel: they act before the next request is sent."""
    run = view.run
    paused = run.state == "paused" or run.wish == "pause"
    final = run.wish == "cancel"
    with st.container(horizontal=True, vertical_alignment="center"):
        # Both, always: neither ever stands where the other one was clicked.
        st.button(
            "Pause", key="run-pause", disabled=final or paused, on_click=_ask,
            args=("pause", run.run_id),
        )  # fmt: skip
        st.button(
            "Resume", key="run-resume", disabled=final or not paused, on_click=_ask,
            args=("resume", run.run_id),
        )  # fmt: skip
        with st.container(key="danger-cancel", width="content"):
            st.button(
                "Cancel what is not sent yet",
                key="run-cancel",
                disabled=final,
                on_click=_ask,
                args=("cancel", run.run_id),
            )
        st.caption("What was sent stays sent.")
        stopping.offer()
    error = st.session_state.pop("wish-error", None)
    if isinstance(error, LowwaterError):
        states.show_error(error)


def _ask(wish: str, run_id: str) -> None:
    asked = {
        "pause": queue.request_pause,
        "resume": queue.request_resume,
        "cancel": queue.request_cancel,
    }
    try:
        asked[wish](context.settings(), open_journal(), run_id, access.actor())
    except LowwaterError as error:
        st.session_state["wish-error"] = error


show()
