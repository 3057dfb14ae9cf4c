"""What may be broken on the page of a demo: there is no such panel anywhere else."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard.core import demo_faults
from dashboard.core.demo_faults import KINDS
from dashboard.ui.components import markup
from dashboard.ui.session import routes

_AGAIN = "2s"  # what was asked for takes up to half a minute


@st.fragment(run_every=_AGAIN)
def show(room: Path) -> None:
    """Every kind of fault: what it does, what became of it, and the button for it."""
    told = demo_faults.told(room)
    asked = demo_faults.asked(room)
    broken = f" ({len(told)} broken)" if told else ""
    with st.expander(f"This is a demo: break something{broken}"):
        for kind, about in KINDS.items():
            left, middle, right = st.columns([6, 2, 2], vertical_alignment="center")
            fault = told.get(kind)
            state = fault.state if fault else "whole"
            said = f" {markup.plain(fault.said)}." if fault and fault.said else ""
            left.markdown(f"**{kind}** · {state}. {markup.plain(about.does)}{said}")
            with middle:
                routes.link(about.page, f"Seen on {routes.TITLES[about.page]}")
            wanted = kind in asked
            right.button(
                f"Heal the {kind}" if wanted else f"Break a {kind}",
                key=f"demo-{kind}", width="stretch",
                disabled=fault is not None and fault.state in ("breaking", "healing"),
                on_click=demo_faults.take_back if wanted else demo_faults.ask, args=(room, kind),
            )  # fmt: skip
