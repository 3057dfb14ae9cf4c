"""Tables on pages: as high as their rows, up to a limit; which rows are selected; and a box to
choose names from many: what is typed is a part of a name, and one click takes one name.

Streamlit's own box matches letters in order ("orders" is in "old-readers") and offers all matches
at once, which Enter takes: 610 topics of 3,014 were chosen so, behind one chip.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.ui.components import markup
from dashboard.views import formats

_ROW_HEIGHT = 30  # pixels; the head of a table is as high as a row
_BORDER = 4
_LETTER, _PADDING = 7, 8  # of a cell's text
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


_CHIPS = 3  # more of them may scroll out of sight
_NAMED = 20


def pick(
    label: str,
    options: Sequence[str],
    noun: str,
    key: str,
    *,
    place: DeltaGenerator | None = None,
    default: Sequence[str] = (),
    placeholder: str | None = None,
    described: str | None = None,
    in_order: bool = False,
    anew: bool = False,
) -> list[str]:
    """The chosen names; below the box how many there are and which, once they are several.

    `in_order` keeps the order of the options; else the shortest comes first. `anew` chooses the
    default again: a box that is there already keeps its choice, whatever its default says by then.
    """
    here = place or st.container()
    if anew:
        st.session_state[key] = list(default)
    chosen = here.multiselect(
        label,
        # Enter takes the first match: of those that hold a text the shortest is the text itself.
        options if in_order else sorted(options, key=lambda name: (len(name), name)),
        default=None if anew else default,
        key=key,
        help=described,
        placeholder=placeholder,
        filter_mode="contains",
        select_all=False,
        wrap=True,
    )
    if len(chosen) > _CHIPS:
        here.html(chosen_html(chosen, noun))
    return list(chosen)


def chosen_html(chosen: Sequence[str], noun: str) -> str:
    """`612 topics: a, b …`, the names beyond the first ones behind a click."""
    names = [markup.text(name) for name in sorted(chosen)]
    said = f"<b>{formats.plural(len(names), noun)}</b>: {', '.join(names[:_NAMED])}"
    if rest := names[_NAMED:]:
        count = formats.number(len(rest))
        said += f" <details><summary>and {count} more</summary>{', '.join(rest)}</details>"
    return f'<div class="lw" role="status">{said}</div>'


def one(place: DeltaGenerator, label: str, key: str, options: list[str]) -> str | None:
    """A filter that the address keeps; None: everything."""
    found = place.selectbox(
        label, options, index=None, key=key, bind="query-params", placeholder="all"
    )
    return str(found) if found else None
