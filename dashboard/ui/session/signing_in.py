"""The way in and out: what somebody sees who is not signed in, or may not look."""

from __future__ import annotations

import streamlit as st

from dashboard.core.errors import LowwaterError, RefusedError
from dashboard.ui.components import states
from dashboard.ui.session import access


def admitted() -> bool:
    """Whether the person may look; else the reason is drawn, and the button that helps."""
    try:
        access.check()
    except LowwaterError as error:
        _way_in(error)
        return False
    return True


def _way_in(error: LowwaterError) -> None:
    if not access.signs_in() or not isinstance(error, RefusedError):
        states.show_error(error)
        return
    if error.code == "NOT_SIGNED_IN":
        states.show(
            "Sign in to Lowwater",
            "What you may do here depends on who you are. Your provider asks for your password; "
            "Lowwater never sees it.",
        )
    else:
        states.show_error(error)
    with st.container(horizontal=True):
        st.button("Sign in", type="primary", key="sign-in", on_click=st.login)
        if error.code != "NOT_SIGNED_IN":
            sign_out()


def sign_out() -> None:
    """The button that forgets who this browser is; nothing where nobody signs in."""
    if access.signs_in():
        st.button("Sign out", key="sign-out", on_click=st.logout, type="tertiary")
