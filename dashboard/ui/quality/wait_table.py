"""Predicted waits against what happened, on the page Quality."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard.core.words import duration
from dashboard.purge.forecast import wait_outcomes
from dashboard.purge.forecast.wait_outcomes import CauseWaits
from dashboard.ui.components import grid, states
from dashboard.ui.purge.runs import left_out, past_runs
from dashboard.ui.session.context import Screen

CAUSES = {
    "keeps-up": "followers keep up",
    "fetches": "a follower is behind, and fetches",
    "behind": "a follower stands still",
    "silent": "a broker does not answer",
    "unreadable": "a replica cannot be read",
    "log-dir-move": "the leader moves log dirs",
}


def show(screen: Screen) -> None:
    """How true past forecasts of waiting were, or why nothing can be told yet."""
    st.html('<div class="lw"><h2>Predicted waits against what happened</h2></div>')
    lines = wait_outcomes.calibration(past_runs(screen.cluster.cluster_id))
    if not lines:
        states.show(
            "No purge has waited for all replicas yet",
            "Each wait-all request keeps how long its answer was expected to take, and how long "
            "it took.",
            "Purge in the mode wait-all; it appears here once the receipt is final.",
        )
        if cut := left_out():
            st.caption(cut)
        return
    right = st.column_config.TextColumn(alignment="right")
    grid.show(
        table(lines),
        dict.fromkeys(("Median error", "Worst", "Inside the interval"), right),
        alt="Requests, median and worst error of predicted waits, and requests inside, by cause",
        key="wait-table",
    )
    st.caption("Per request: the time from sending to the answer, against the most likely one.")
    if cut := left_out():
        st.caption(cut)


def table(lines: Sequence[CauseWaits]) -> pd.DataFrame:
    """One row per reason to wait."""
    return pd.DataFrame(
        {
            "Seen before sending": [CAUSES.get(x.cause, x.cause) for x in lines],
            "Purges": [x.purges for x in lines],
            "Requests": [x.errors.requests for x in lines],
            "Median error": [duration(x.errors.median_error_seconds) for x in lines],
            "Worst": [_worst(x.errors.worst_error_seconds) for x in lines],
            "Inside the interval": [f"{x.errors.inside} of {x.errors.requests}" for x in lines],
        }
    )


def _worst(seconds: float) -> str:
    if not seconds:
        return duration(0)
    return f"{duration(abs(seconds))} {'sooner' if seconds < 0 else 'later'}"
