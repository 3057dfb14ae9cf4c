"""The Streamlit entry: pages on top, one header, and no error without a designed message."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard.ui import tour
from dashboard.ui.components import in_browser, style
from dashboard.ui.components.states import caught
from dashboard.ui.session import access, context, navigation, routes

_ICON = Path(__file__).parent / "ui" / "icon.svg"


@caught
def show_page() -> None:
    """Run the page that the address names, for those who may look."""
    pages = [routes.page(name) for name in routes.TITLES]
    chosen = st.navigation(pages, position="hidden")  # our links say of which cluster they are
    style.apply()
    in_browser.listen()
    if access.admitted():
        context.entered(chosen.url_path)
        navigation.show(context.this_page())
        tour.show(context.this_page())
        chosen.run()


st.set_page_config(page_title="Lowwater", page_icon=str(_ICON), layout="wide")
show_page()
