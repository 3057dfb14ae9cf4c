"""The pages by name: where their files are, in a clone and in an installed wheel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import Page

_PACKAGE = Path(__file__).parent.parent
# In a clone the pages stand beside the package; the wheel carries them as dashboard/screens.
FOLDER = next(
    f for f in (_PACKAGE / "screens", _PACKAGE.parent / "pages") if (f / "overview.py").is_file()
)
TITLES = {
    "overview": "Overview",
    "reclaimable": "Reclaimable",
    "purge": "Purge",
    "audit": "Audit",
    "quality": "Quality",
}


def page(name: str) -> Page:
    """The page called `name`; equal for streamlit wherever it is made."""
    first = name == "overview"
    return st.Page(
        FOLDER / f"{name}.py", title=TITLES[name], url_path="" if first else name, default=first
    )


def go(name: str, **params: str) -> None:
    """Leave for another page; `params` become its query (empty ones are dropped)."""
    st.switch_page(page(name), query_params=_kept(params))


def link(name: str, label: str, **params: str) -> None:
    """A link to another page."""
    st.page_link(page(name), label=label, query_params=_kept(params))


def address(name: str, **params: str) -> str:
    """The relative address of a page, for links inside HTML."""
    from urllib.parse import urlencode

    query = urlencode(_kept(params))
    return f"{'/' if name == 'overview' else name}{'?' + query if query else ''}"


def param(name: str) -> str | None:
    """One value of the address's query."""
    value = st.query_params.get(name)
    return str(value) if value else None


def params_list(name: str) -> list[str]:
    """A comma-separated list in the address; Kafka's topic names hold no comma."""
    return [part for part in (param(name) or "").split(",") if part]


def _kept(params: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in params.items() if value}
