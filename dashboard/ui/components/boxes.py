"""A box in which a time or a size is typed as people say it: it then shows what that is read as."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

Settled = Callable[[str], str | None]


def typed_in(
    place: DeltaGenerator,
    label: str,
    key: str,
    settled: Settled,
    *,
    value: str = "",
    placeholder: str | None = None,
) -> str:
    """What stands in the box. Where `settled` reads what was typed as something, that replaces it:
    a plan is of the very time or size that its reader sees, and "2 hours ago" is another one at
    each look.
    """
    st.session_state.setdefault(key, value)
    return place.text_input(
        label, key=key, placeholder=placeholder, on_change=_settle, args=(key, settled)
    ).strip()


def _settle(key: str, settled: Settled) -> None:
    read = settled(str(st.session_state[key]))
    if read is not None:
        st.session_state[key] = read
