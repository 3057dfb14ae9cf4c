"""Fleet: which cluster needs somebody, and what can each give back?"""

from __future__ import annotations

import shlex
from datetime import timedelta

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.ui import fleet
from dashboard.ui.components import markup, states
from dashboard.ui.session import context
from dashboard.ui.session.header import stopped
from dashboard.views import formats

_EVERY = timedelta(seconds=5)


@st.fragment(run_every=_EVERY)
@states.guarded
def show() -> None:
    """Every cluster by its newest snapshot and findings; redrawn by itself."""
    settings, now, among = context.settings(), utc_now(), context.choices()
    found = fleet.worst_first(fleet.look_at_all(settings, now))
    st.html(head_html(len(among), stopped(), warn=not all(one.calm for one in found)))
    missing = fleet.never_collected(settings, among)
    if not among and not missing:
        context.store().cluster()  # raises what the data folder lacks
    if among:
        st.html(fleet.sentence_html(found) + fleet.table_html(found, now))
    for name in missing:
        line = f"lowwater watch --cluster {shlex.quote(name)} --data {shlex.quote(settings.data)}"
        st.html(
            f'<div class="lw"><p><b>{markup.text(name)}</b> stands in the settings and was never '
            f"collected: <code>{markup.text(line)}</code></p></div>"
        )


def head_html(count: int, stop: str | None, *, warn: bool) -> str:
    """How many clusters there are; that every purge is stopped, where it is: of all clusters."""
    parts = ["<h1>Fleet</h1>", formats.plural(count, "cluster")]
    if stop is not None:
        parts.append(f"<b>⏸ every purge is stopped</b>: {markup.text(stop)}")
    kind = " warn" if warn or stop is not None else ""
    return f'<div class="lw lw-head{kind}" role="status">{" · ".join(parts)}</div>'


show()
