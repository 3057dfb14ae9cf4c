"""A plan for the page: drafted live in one call, kept as text, never changed after its preview."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import streamlit as st

from dashboard.purge import drafts
from dashboard.purge.drafts import PlanRequest
from dashboard.purge.plan import Plan
from dashboard.purge.targets import Target
from dashboard.ui.context import Screen

_KEY = "lw-draft"


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for in step 1; `reason` stands for every waiver and lifted guard."""

    topics: tuple[str, ...]
    target: Target
    waived: tuple[str, ...] = ()
    lifted: tuple[str, ...] = ()
    reason: str = ""
    move_waived: bool = False

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

    `sample` measures record sizes by reading a few batches.
    """
    plan = drafts.draft(
        screen.settings,
        screen.settings.data,
        screen.cluster.cluster_id,
        PlanRequest(
            topics=request.topics,
            target=request.target,
            waive=tuple(f"{group}={request.reason}" for group in request.waived),
            override=tuple(f"{name}={request.reason}" for name in request.lifted),
            move_waived=request.move_waived,
            sample=sample,
            by=screen.settings.operator,
        ),
    )
    made = Draft(request.name, plan, secrets.token_hex(16))
    st.session_state[_KEY] = made
    return made


def current(request: Request) -> Draft | None:
    """The draft that belongs to this request; None after any change of it."""
    found = st.session_state.get(_KEY)
    return found if isinstance(found, Draft) and found.request_name == request.name else None


def forget() -> None:
    """Drop the draft, so that the next plan is read afresh."""
    st.session_state.pop(_KEY, None)
