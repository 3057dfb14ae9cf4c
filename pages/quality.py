"""Quality: how complete is what the other pages say, and how true were past estimates?"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard.ui import quality
from dashboard.ui.components import grid, states
from dashboard.ui.session import context
from dashboard.ui.session.context import Screen, Tables
from dashboard.ui.session.header import header
from dashboard.views import formats


def show() -> None:
    """Completeness of the newest analysis, what purges were predicted to free and take, and what
    brokers count of them.
    """
    screen = context.load()
    header(screen, follows=True)
    states.notes(screen)
    if screen.findings is None:
        states.no_analysis(screen)
    else:
        show_completeness(screen, screen.findings)
    quality.show_estimators(screen)
    quality.show_waits(screen)
    if screen.findings and "traffic" in screen.findings.manifest.tables:
        quality.show_requests(screen, screen.findings.table("traffic"))


def show_completeness(screen: Screen, findings: Tables) -> None:
    """Tables by broker, what is missing first, then what the collector wrote down."""
    rows = findings.table("quality").to_pylist()
    missing = [row for row in rows if not row["complete"]]
    if missing:
        states.show(
            f"{formats.plural(len(missing), 'part')} of the picture missing",
            "Rows marked ✖ are not in any number of the other pages.",
            warn=True,
        )
    rows.sort(key=lambda row: (bool(row["complete"]), row["table"], row["broker_id"] or 0))
    grid.show(
        pd.DataFrame(
            {
                "Complete": ["✔" if row["complete"] else "✖" for row in rows],
                "Table": [row["table"] for row in rows],
                "Broker": ["all" if r["broker_id"] is None else str(r["broker_id"]) for r in rows],
                "Rows": [row["rows"] for row in rows],
                "Expected": [row["expected_rows"] for row in rows],
                "Reason": [row["reason"] or "" for row in rows],
            }
        ),
        {},
        least=3,
        most=18,
        alt="Completeness of each snapshot table by broker, with the reason where rows are missing",
    )
    durations = screen.manifest.details.get("durations", {})
    took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in sorted(durations.items()))
    st.caption(f"Collected in {screen.manifest.seconds:.1f} s ({took or 'no parts recorded'}).")


show()
