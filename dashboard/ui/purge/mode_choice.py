"""Step 3 of a purge: the mode, explained by what the replicas do just now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.purge.forecast import forecast as forecasts
from dashboard.purge.forecast import text as forecast_text
from dashboard.purge.forecast.forecast import Forecast
from dashboard.purge.journal.journal_rows import MODES
from dashboard.ui.components import markup
from dashboard.ui.components.markup import text
from dashboard.ui.purge.drafting import Draft
from dashboard.ui.session.context import Screen

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
