"""The second person's part: purges that wait for one, and the one that is decided; and of which
cluster a run or a request is: the journal has those of all, and pages show one.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import timedelta

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError, StoreError
from dashboard.people import people
from dashboard.purge.jobs import approving
from dashboard.purge.journal.requests import PurgeRequest
from dashboard.purge.journal.rows import RunRow
from dashboard.purge.plan.plan import Plan
from dashboard.ui.components import markup, states
from dashboard.ui.components.markup import text
from dashboard.ui.purge import looking, plan_view
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import access, context, routes
from dashboard.ui.session.context import Screen
from dashboard.views import formats

_WITHOUT_ONE = ("CLUSTER_AMBIGUOUS", "CLUSTER_NOT_FOUND")


@dataclass(frozen=True, slots=True)
class Named:
    """What an address names by id; `acts` says what is done with it, `verb` what else does so."""

    what: str
    id: str
    cluster_id: str
    cluster_name: str
    acts: str
    verb: str

    @property
    def where(self) -> str:
        """Its cluster as HTML: a link to it there; its name where the data folder lacks that."""
        called = context.called(self.cluster_id, self.cluster_name)
        key = key_of(self.cluster_id)
        return text(called) if key is None else markup.to(routes.here("purge", key), called)


def run_named(row: RunRow) -> Named:
    """A run as the address names it."""
    return Named(
        "run", row.run_id, row.cluster_id, row.cluster_name,
        "paused, resumed, cancelled or planned again", f"lowwater run {row.run_id}",
    )  # fmt: skip


def request_named(row: PurgeRequest) -> Named:
    """A request as the address names it."""
    return Named(
        "request", row.request_id, row.cluster_id, row.cluster_name,
        "approved or rejected", f"lowwater approvals --show {row.request_id}",
    )  # fmt: skip


def key_of(cluster_id: str | None) -> str | None:
    """What names this cluster in addresses; None where the data folder has nothing of it."""
    return next((each.key for each in context.choices() if each.cluster_id == cluster_id), None)


def is_here(screen: Screen, named: Named) -> bool:
    """Whether it is of the cluster that is shown; says of which it is where not. Then nothing that
    acts on it may be drawn: a header stands above that speaks of another cluster.
    """
    if named.cluster_id == screen.cluster.cluster_id:
        return True
    st.html(told_html(named))
    return False


def told_html(named: Named) -> str:
    """That it is of another cluster than the header, and where it is acted on."""
    by_hand = f"<code>{text(named.verb)}</code>"
    follow = f"It is {named.acts} there, or from the command line: {by_hand}."
    where = f"<b>{named.where}</b>"
    if key_of(named.cluster_id) is None:
        where += ", of which this data folder has nothing"
        follow = f"See {by_hand}."
    return (
        f'<div class="lw lw-state warn" role="status"><p>This {named.what} is of another cluster: '
        f"{where}. The header tells of the one that the pages show. {follow}</p></div>"
    )


def load() -> Screen | None:
    """What the page stands on. None where the address names no cluster that is here, but a run or
    a request of one that is: the page leads there, and to no other cluster.

    Raises StoreError; UsageError RUN_NOT_FOUND, REQUEST_NOT_FOUND.
    """
    try:
        return context.load()
    except StoreError as error:
        named = _of_address() if error.code in _WITHOUT_ONE else None
        if named is None or key_of(named.cluster_id) is None:
            raise
        st.html(
            '<div class="lw lw-state warn" role="status"><h2>Which cluster?</h2><p>The address '
            f"names none that is here. The {named.what} {text(named.id)} is of "
            f"<b>{named.where}</b>.</p></div>"
        )
        return None


def _of_address() -> Named | None:
    journal = open_journal()
    if run_id := routes.param("run"):
        return run_named(journal.head(run_id))
    request_id = routes.param("request")
    return request_named(journal.request(request_id)) if request_id else None


_EVERY = timedelta(seconds=5)
_ERROR = "approval-error"
_DONE = "approval-done"


@st.fragment(run_every=_EVERY)
@states.guarded
def waiting(screen: Screen) -> None:
    """A line for each purge that waits; nothing where nobody must be asked, or nobody asked."""
    if screen.settings.people is None:
        return
    now = utc_now()
    found = open_journal().open_requests(screen.cluster.cluster_id, now)
    if not found:
        return
    st.html('<div class="lw"><h2>Purges that wait for a second person</h2></div>')
    for request in found:
        left = formats.duration(request.asked.expires_at - now)
        routes.link(
            "purge",
            f"**{markup.plain(request.asked.requester)}** asks to purge: {request.asked.mode}, "
            f"plan {request.plan_id}, for {left} more",
            request=request.request_id,
        )


def show(screen: Screen, request_id: str) -> None:
    """One request: its plan as it would be sent, some of its records, and who may decide."""
    journal, now = open_journal(), utc_now()
    request = journal.request(request_id)
    plan = journal.requested_plan(request_id)
    waits = request.state_at(now) == "asked"
    here = is_here(screen, request_named(request))
    with st.container(border=True):
        st.html(head_html(request))
        plan_view.show(plan, handed_out=here)
        if waits and here:
            looking.offer_plan(screen, plan)
    if waits and here:
        with st.container(border=True):
            _decide(request, plan)
    if waits:
        _follow(request_id)
    elif request.run_id and here:
        routes.link("purge", f"See run {request.run_id}", run=request.run_id)
    st.button("Back", key="request-back", on_click=routes.stay)


@st.fragment(run_every=_EVERY)
@states.guarded
def _follow(request_id: str) -> None:
    """Draw the page anew once somebody decided, or nobody did in time."""
    if open_journal().request(request_id).state_at(utc_now()) != "asked":
        st.rerun(scope="app")


def head_html(request: PurgeRequest) -> str:
    """Who asked for what, when, until when, and what became of it."""
    now, asked = utc_now(), request.asked
    state = request.state_at(now)
    said = {
        "asked": f"waits for a second person for {formats.duration(asked.expires_at - now)} more",
        "expired": "expired: nobody decided in time",
    }.get(state, f"{state} by {request.decided_by}")
    return (
        f'<div class="lw"><h2>Request {markup.text(request.request_id)} '
        f"<small>{markup.text(said)}</small></h2><small>{markup.text(asked.requester)} asked "
        f"{markup.ago(request.asked_at, now)} from {markup.text(asked.from_where)}: "
        f"{markup.text(asked.described)}</small></div>"
    )


@st.fragment
@states.guarded
def _decide(request: PurgeRequest, plan: Plan) -> None:
    """The sentence and the red button, for an approver who is not the requester."""
    own = people.same_person(access.name(), request.asked.requester)
    if own:
        st.caption("You asked for it: somebody else approves. You may take it back.")
    elif not access.only("approver", "Approving a purge"):
        return
    left, middle, right = st.columns([4, 2, 2], vertical_alignment="bottom")
    if not own:
        left.html(
            '<div class="lw">Type this sentence to approve: '
            f"<code>{markup.text(plan.confirmation)}</code></div>"
        )
        typed = left.text_input(
            "Confirmation", key=_approval(request.request_id), live=True, autocomplete="off"
        )
        with middle.container(key="danger-approve"):
            st.button(
                "Approve and purge",
                type="primary",
                width="stretch",
                key="approve",
                disabled=typed != plan.confirmation,
                on_click=_approve,
                args=(request.request_id, plan.sha256),
            )
    right.button(
        "Take back" if own else "Reject",
        width="stretch",
        key="reject",
        on_click=_reject,
        args=(request.request_id,),
    )
    error = st.session_state.pop(_ERROR, None)
    if isinstance(error, LowwaterError):
        states.show_error(error)
    if st.session_state.pop(_DONE, False):
        st.rerun(scope="app")


def _approval(request_id: str) -> str:
    return f"approve-{request_id}"


def _approve(request_id: str, sha256: str) -> None:
    """The callback: who clicks, with which role and what they typed, is asked at the click."""
    typed = str(st.session_state.get(_approval(request_id)) or "")
    try:
        run_id = approving.approve(
            context.settings(), open_journal(), request_id,
            who=access.actor(), confirm=typed, sha256=sha256, from_where=_from_where(),
        )  # fmt: skip
    except LowwaterError as error:
        st.session_state[_ERROR] = error
        return
    st.session_state[_DONE] = True
    routes.stay(run=run_id)


def _reject(request_id: str) -> None:
    try:
        approving.reject(
            context.settings(), open_journal(), request_id,
            who=access.actor(), from_where=_from_where(),
        )  # fmt: skip
    except LowwaterError as error:
        st.session_state[_ERROR] = error
        return
    st.session_state[_DONE] = True


def _from_where() -> str:
    return f"dashboard on {socket.gethostname()}"
