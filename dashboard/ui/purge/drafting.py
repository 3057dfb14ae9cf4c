"""A plan for the page: drafted live in one call, kept as text, never changed after its preview."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import streamlit as st

from dashboard.people import people
from dashboard.purge.plan import drafts
from dashboard.purge.plan.asked import Lift, Waive
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.targets import Target
from dashboard.ui.session import access
from dashboard.ui.session.context import Screen

_KEY = "lw-draft"
_HANDED = "lw-handed-request"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for in step 1; `reason` stands for every waiver and lifted guard.

    `origin` says in words where a request comes from that another page hands over.
    """

    topics: tuple[str, ...]
    target: Target
    waived: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()
    reason: str = ""
    move_waived: bool = False
    origin: str = ""

    @property
    def name(self) -> str:
        """Equal requests have equal names: a preview belongs to exactly one."""
        return repr(self)


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan as it was previewed. `token` identifies the one click that may queue it."""

    request_name: str
    plan: Plan
    token: str


def draft(screen: Screen, request: Request, *, sample: bool = False) -> Draft:
    """Read the cluster and build the plan; nothing is changed. Raises LowwaterError.

    `sample` measures record sizes by reading a few batches. RefusedError ROLE_TOO_LOW for one who
    waives or lifts and may not.
    """
    who = access.actor()
    if request.waived or request.lifted:
        people.require(screen.settings, who, "operator", "waive groups or lift guards")
    plan = drafts.draft(
        screen.settings,
        screen.settings.data,
        screen.cluster.cluster_id,
        PlanRequest(
            topics=request.topics,
            target=request.target,
            waive=tuple(Waive(group, request.reason) for group in request.waived),
            override=tuple(Lift(name, request.reason) for name in request.lifted),
            move_waived=request.move_waived,
            sample=sample,
            by=who.name,
        ),
    )
    made = Draft(request.name, plan, secrets.token_hex(16))
    st.session_state[_KEY] = made
    return made


def current(request: Request) -> Draft | None:
    """The draft that belongs to this request; None after any change of it."""
    found = st.session_state.get(_KEY)
    return found if isinstance(found, Draft) and found.request_name == request.name else None


def hand_over(request: Request, plan: Plan) -> None:
    """Give the purge page a request with the plan that was made for it moments ago."""
    st.session_state[_HANDED] = request
    st.session_state[_KEY] = Draft(request.name, plan, secrets.token_hex(16))


def handed() -> Request | None:
    """The request that another page handed over, until it is queued or dropped."""
    found = st.session_state.get(_HANDED)
    return found if isinstance(found, Request) else None


def forget() -> None:
    """Drop the draft and what was handed over, so that the next plan is read afresh."""
    st.session_state.pop(_KEY, None)
    st.session_state.pop(_HANDED, None)
