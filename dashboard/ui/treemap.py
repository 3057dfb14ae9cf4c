"""The treemap of topics on Overview, whose file is full: size is bytes over all replicas, fill the
share that is reclaimable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.views import colours, formats
from dashboard.views.facts import UNDECLARED
from dashboard.views.topic_rows import TopicRow

TOPICS_SHOWN = 300
_LEAST_LABELLED = 0.008  # of all bytes: below it a tile has no room for its name
_MAP_PIXELS, _LETTER_PIXELS = 620 * 340, 7 * 16  # as it mostly is; a letter on its line
_OF_A_TILE = 0.5  # is its name's, which wraps: the rest is for its figures and edges
_LEAST_LETTERS = 9


def shown_topics(rows: Sequence[TopicRow]) -> list[TopicRow]:
    """The largest topics, in the order of the tiles; the others share one tile after them."""
    largest = sorted(rows, key=lambda row: (-(row.size_bytes or 0), row.topic))
    return [row for row in largest[:TOPICS_SHOWN] if row.size_bytes]


def treemap(rows: Sequence[TopicRow], *, dark: bool) -> dict[str, Any]:
    """The ECharts option. Tiles carry their texts: an option cannot hold functions."""
    shown = shown_topics(rows)
    whole = sum(row.size_bytes or 0 for row in rows)
    tiles = [_of_topic(row, whole, dark=dark) for row in shown]
    rest = whole - sum(row.size_bytes or 0 for row in shown)
    if rest > 0:
        smaller = set(rows).difference(shown)
        known = [r.reclaimable_bytes for r in smaller if r.reclaimable_bytes is not None]
        given = sum(known) if known else None
        name = f"{len(rows) - len(shown)} smaller topics"
        tiles.append(_tile(name, rest, given, whole, dark=dark))
    return {
        "animation": False,
        "tooltip": {"show": True},
        "series": [
            {
                "type": "treemap",
                "data": tiles,
                "roam": False,
                "animation": False,
                "animationDurationUpdate": 0,
                "nodeClick": False,
                "selectedMode": "single",
                "breadcrumb": {"show": False},
                "left": 0,
                "right": 0,
                "top": 0,
                "bottom": 0,
                "itemStyle": {"borderColor": "#0e1420" if dark else "#ffffff", "gapWidth": 1},
            }
        ],
    }


def _of_topic(row: TopicRow, whole: int, *, dark: bool) -> dict[str, Any]:
    """What guards hold all of is grey, as what is not known: none of it may go, whose is it?"""
    if row.guarded_bytes == 0 or row.consumed_bytes:
        return _tile(row.topic, row.size_bytes or 0, row.reclaimable_bytes, whole, dark=dark)
    names = ", ".join(name for name in row.guards if name != UNDECLARED)
    why = f"{formats.size(row.guarded_bytes)} below its targets, guarded: {names}"
    return _tile(row.topic, row.size_bytes or 0, None, whole, dark=dark, said="guarded", why=why)


def _tile(
    name: str,
    size_bytes: int,
    given_bytes: int | None,
    whole: int,
    *,
    dark: bool,
    said: str = formats.UNKNOWN,
    why: str = "what is reclaimable is unknown",
) -> dict[str, Any]:
    """`given_bytes` are reclaimable; None: that is not known, as without any committed group, and
    `said` and `why` stand there instead.
    """
    share = min(1.0, (given_bytes or 0) / size_bytes) if size_bytes else 0.0
    scale = colours.SHARE_ON_DARK if dark else colours.SHARE_ON_LIGHT
    fill, ink = scale[min(len(scale) - 1, int(share * len(scale)))]
    if given_bytes is None:
        fill, ink = colours.SHARE_UNKNOWN_ON_DARK if dark else colours.SHARE_UNKNOWN_ON_LIGHT
    if given_bytes is not None:
        said = f"{share:.0%}"
        why = f"{formats.size(given_bytes)} reclaimable" if given_bytes else "none reclaimable"
    pixels = _MAP_PIXELS * size_bytes / whole if whole else 0
    room = int(_OF_A_TILE * pixels / _LETTER_PIXELS)
    shown = formats.middle(name, max(room, _LEAST_LETTERS))
    return {
        "name": name,
        "value": size_bytes,
        "itemStyle": {"color": fill},
        "label": {
            "show": size_bytes >= _LEAST_LABELLED * whole,
            "formatter": f"{shown}\n{formats.size(size_bytes)} · {said}",
            "color": ink,
            "fontSize": 12,
            "lineHeight": 16,
            "overflow": "break",
        },
        "tooltip": {"formatter": f"{name}: {formats.size(size_bytes)} on disk, {why}"},
    }
