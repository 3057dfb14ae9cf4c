"""`How do you know?`: the estimator, the snapshot and the interval behind a number."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.ui.components.markup import text
from dashboard.ui.session.context import Screen
from dashboard.views import formats
from dashboard.views.facts import known_total

_METHODS = {
    "segments": "whole segments below the target, from an inventory of the log dirs: exact",
    "history": "the curve of offsets to bytes that past snapshots of each replica draw",
    "proportional": "size times the share of offsets below the target, per replica: right while "
    "records keep their size; the interval allows sizes that changed",
}


def how_do_you_know(screen: Screen, facts: pa.Table, flag: str = "consumed") -> None:
    """A popover for the bytes of the partitions whose `flag` is set."""
    with st.popover("How do you know?", type="tertiary"):
        st.html(how_html(screen, facts, flag))


def how_html(screen: Screen, facts: pa.Table, flag: str) -> str:
    """Estimator, interval, snapshot and analysis as a small list."""
    rows = facts.filter(facts[flag])
    low, high = known_total(rows, "bytes_low"), known_total(rows, "bytes_high")
    between = f"{formats.size(low)} to {formats.size(high)}, all replicas together"
    if low is None:
        between = "unknown: no replica's size could be read (DescribeLogDirs)"
    methods = sorted(m for m in pc.unique(rows["method"]).to_pylist() if m)
    estimators = "; ".join(f"{m}: {_said(m)}" for m in methods) or "none needed"
    analysis = screen.findings.id if screen.findings else "none"
    pairs = (
        ("Interval", between),
        ("Estimator", estimators),
        ("Partitions", f"{formats.number(rows.num_rows)} of {formats.number(facts.num_rows)}"),
        ("Snapshot", f"{screen.manifest.id}, {formats.utc(screen.manifest.taken_at)}"),
        ("Analysis", analysis),
        ("Consumed", "below the lowest committed offset of every group seen in any kept snapshot"),
        ("Declared", "its owner said, by name and date, that its groups are all its readers"),
    )
    lines = "".join(f"<p><b>{name}</b>: {text(value)}</p>" for name, value in pairs)
    return f'<div class="lw">{lines}</div>'


def _said(method: str) -> str:
    """What an estimator does; its name may say behind a comma how many replicas answered."""
    return _METHODS.get(method.partition(",")[0], "see docs/estimators.md")
