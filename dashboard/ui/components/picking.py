"""A box to choose names from many: what is typed is a part of a name, and one click takes one name.

Streamlit's own box matches letters in order ("orders" is in "old-readers") and offers all matches
at once, which Enter takes: 610 topics of 3,014 were chosen so, behind one chip.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.ui.components import markup
from dashboard.views import formats

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
) -> list[str]:
    """The chosen names; below the box how many there are and which, once they are several.

    `in_order` keeps the order of the options; else the shortest comes first.
    """
    here = place or st.container()
    chosen = here.multiselect(
        label,
        # Enter takes the first match: of those that hold a text the shortest is the text itself.
        options if in_order else sorted(options, key=lambda name: (len(name), name)),
        default=default,
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
