"""Five steps through a demo, from the first number to a receipt: on its pages, and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import streamlit as st

from dashboard.core import demo_faults
from dashboard.ui.components import markup
from dashboard.ui.session import routes

TOPIC = "web-sessions"  # of the demo: declared, and its only group has read all of it
_RUN = "purge?run"
_ENDED = "tour-ended"


@dataclass(frozen=True, slots=True)
class Step:
    """What a page is for, and the link that leads to the next one, if a link does."""

    title: str
    said: str
    onward: str = ""
    page: str = ""
    params: Mapping[str, str] = field(default_factory=dict)


STEPS: Mapping[str, Step] = {
    "overview": Step(
        "how much can go",
        "Records below what every known group has committed can be given back. Some groups here "
        "are slow, one is dead, and a topic has none at all: of that nobody knows.",
        "Next: who holds the rest",
        "reclaimable",
    ),
    "reclaimable": Step(
        "who holds the rest",
        "A topic a row: what can go at once, what later, and which group holds the rest. Tick "
        "billing-old at the side, which is dead: the numbers tell what a waiver of it would free, "
        "and nothing is changed.",
        f"Next: preview a purge of {TOPIC}",
        "purge",
        {"topics": TOPIC},
    ),
    "purge": Step(
        "what exactly would happen",
        "With topics chosen, a plan is read from the brokers: per partition the target, records "
        "and bytes, and what guards it. Nothing is sent before you type the sentence of step 4.",
    ),
    _RUN: Step(
        "what happened",
        "Each leader gets its request, then every replica is read: done means proved. Once the "
        "segments have left, the receipt holds freed bytes against predicted ones.",
        "Next: what is kept of it",
        "audit",
    ),
    "audit": Step(
        "who did what",
        "Each entry is a link of a chain: who, when, by which plan and sentence. Stop every purge "
        "stands here, too. Then break something: at the foot of Overview.",
        "Overview",
        "overview",
    ),
}


def show(page: str) -> None:
    """The step of this page; nothing outside of a demo, and once somebody has ended the tour."""
    at = _RUN if page == "purge" and routes.param("run") else page
    room = demo_faults.room()
    if room is None or at not in STEPS or (room / _ENDED).exists():
        return
    step = STEPS[at]
    left, middle, right = st.columns([10, 3, 2], vertical_alignment="center")
    left.html(step_html(step, list(STEPS).index(at) + 1))
    if step.page:
        with middle:
            routes.link(step.page, step.onward, **step.params)
    right.button("End the tour", key="tour-end", on_click=_end, args=(room,), width="stretch")


def step_html(step: Step, at: int) -> str:
    """`Tour, 2 of 5: who holds the rest`, and what to look at."""
    title = f"Tour, {at} of {len(STEPS)}: {step.title}"
    return (
        f'<div class="lw lw-state" role="note"><p><b>{markup.text(title)}.</b> '
        f"{markup.text(step.said)}</p></div>"
    )


def offer(room: Path) -> None:
    """The button that begins the tour anew, where it was ended."""
    if (room / _ENDED).exists():
        st.button("Show the tour again", key="tour-again", on_click=_begin, args=(room,))


def _end(room: Path) -> None:
    (room / _ENDED).touch()


def _begin(room: Path) -> None:
    (room / _ENDED).unlink(missing_ok=True)
