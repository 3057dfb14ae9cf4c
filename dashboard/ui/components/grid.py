"""Tables on pages: as high as their rows, up to a limit; and which rows are selected."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pandas as pd
import streamlit as st

from dashboard.views import formats

_ROW_HEIGHT = 30  # pixels; the head of a table is as high as a row
_BORDER = 4
_LETTER, _PADDING = 7.5, 8  # of a cell's text
_WIDEST = 460


def show(
    shown: pd.DataFrame,
    columns: Mapping[str, Any],
    *,
    alt: str,
    key: str | None = None,
    placeholder: str = formats.MISSING,
    least: int = 1,
    most: int = 15,
) -> None:
    """Draw the frame: room for `least` to `most` rows, more are scrolled to."""
    st.dataframe(
        shown, key=key, alt=alt, **_look(shown, columns, placeholder, least=least, most=most)
    )


def room_for(names: Iterable[str], least: int) -> int:
    """So many pixels that the longest of them is read in full, up to a limit; on a wide screen
    every column gets more.
    """
    longest = max(map(len, names), default=0)
    return min(max(least, round(_LETTER * longest) + 2 * _PADDING), _WIDEST)


def selected(
    shown: pd.DataFrame,
    columns: Mapping[str, Any],
    names: Iterable[str],
    *,
    alt: str,
    key: str,
    several: bool = False,
    placeholder: str = formats.MISSING,
) -> list[int]:
    """Draw the frame; the numbers of the rows that are selected in it, from 0.

    The browser selects by row number: with other rows, which `names` tell apart, it is another
    table, and nothing is selected in it.
    """
    mode: Literal["multi-row", "single-row"] = "multi-row" if several else "single-row"
    event = st.dataframe(
        shown,
        key=f"{key}-{zlib.crc32(chr(10).join(names).encode())}",
        on_select="rerun",
        selection_mode=mode,
        alt=alt,
        **_look(shown, columns, placeholder, least=0, most=15),
    )
    return [index for index in event.selection.rows if index < len(shown)]


def _look(
    shown: pd.DataFrame, columns: Mapping[str, Any], placeholder: str, *, least: int, most: int
) -> dict[str, Any]:
    rows = min(max(len(shown), least), most)
    return {
        "hide_index": True,
        "placeholder": placeholder,
        "row_height": _ROW_HEIGHT,
        "height": _ROW_HEIGHT * (rows + 1) + _BORDER,
        "column_config": dict(columns),
    }
