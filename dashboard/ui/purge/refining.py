"""How the preview's bytes were found, and the offer to measure them by reading a few batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import streamlit as st

from dashboard.core.errors import LowwaterError
from dashboard.purge.evidence.sampled import METHOD, MOST_PARTITIONS
from dashboard.purge.plan.plan import PlannedPartition
from dashboard.ui.components import states
from dashboard.ui.purge import drafting
from dashboard.ui.purge.drafting import Draft, Request
from dashboard.ui.session.context import Screen
from dashboard.views import formats

_ERROR = "refine-error"
_MEASURED = (METHOD, "segments")


def offer(screen: Screen, request: Request, draft: Draft) -> None:
    """A line with the estimators, and a button where sampling would tell more."""
    free = draft.plan.free_partitions
    if not free:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(said(free))
        if any(p.estimate is None or p.estimate.method not in _MEASURED for p in free):
            st.button(
                "Measure record sizes",
                key="refine",
                on_click=_refine,
                args=(screen, request),
                help="Plans again and reads up to 46 record batches of each of the "
                f"{MOST_PARTITIONS} largest partitions; needs READ on the topics. Tiered topics "
                "are left out.",
            )
    error = st.session_state.pop(_ERROR, None)
    if isinstance(error, LowwaterError):
        states.show_error(error)


def said(free: Iterable[PlannedPartition]) -> str:
    """How many partitions each estimator speaks for."""
    methods = Counter(p.estimate.method if p.estimate else "not measured" for p in free)
    told = ", ".join(f"{count} {method}" for method, count in sorted(methods.items()))
    return f"Bytes of {formats.plural(methods.total(), 'partition')}: {told}."


def _refine(screen: Screen, request: Request) -> None:
    try:
        drafting.draft(screen, request, sample=True)
    except LowwaterError as error:
        st.session_state[_ERROR] = error
