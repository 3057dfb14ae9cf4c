"""A page that follows the newest analysis by itself, for as long as the reader wants that."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from dashboard.core.errors import LowwaterError
from dashboard.ui.session import context
from dashboard.ui.session.context import Screen

_EVERY = timedelta(seconds=5)


def toggle(screen: Screen) -> None:
    """The switch, on at first. Off, the page keeps its numbers, as the other pages do."""
    on = st.toggle(
        "Live",
        value=True,
        key="live",
        help="Show each new analysis as soon as it is there. Off: the numbers stay until you ask.",
    )
    if on and screen.findings is not None:
        _follow(screen.findings.id)


@st.fragment(run_every=_EVERY)
def _follow(shown: str) -> None:
    """Draw the page anew when another analysis is the newest."""
    try:
        newest = context.open_cluster().latest("findings")
    except LowwaterError:  # the header says what is wrong
        return
    if newest and newest != shown:
        context.show_newest()
        st.rerun(scope="app")
