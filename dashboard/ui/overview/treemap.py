"""The treemap of topics: size is bytes over all replicas, fill the share that is reclaimable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.views import formats
from dashboard.views.colours import SHARE_SCALE
from dashboard.views.topic_rows import TopicRow

SHOWN = 300
_UNKNOWN = "#cbd5e1"  # grey, where the scale of shares is green
_LEAST_LABELLED = 0.008  # of all bytes: below it a tile has no room for its name


def shown_topics(rows: Sequence[TopicRow]) -> list[TopicRow]:
    """The largest topics, in the order of the tiles; the others share one tile after them."""
    largest = sorted(rows, key=lambda row: (-(row.size_bytes or 0), row.topic))
    return [row for row in largest[:SHOWN] if row.size_bytes]


def option(rows: Sequence[TopicRow], *, dark: bool) -> dict[str, Any]:
    """The ECharts option. Tiles carry their texts: an option cannot hold functions."""
    shown = shown_topics(rows)
    whole = sum(row.size_bytes or 0 for row in rows)
    tiles = [_tile(row.topic, row.size_bytes or 0, row.reclaimable_bytes, whole) for row in shown]
    rest = whole - sum(row.size_bytes or 0 for row in shown)
    if rest > 0:
        given = sum(r.consumed_bytes for r in rows) - sum(r.consumed_bytes for r in shown)
        tiles.append(_tile(f"{len(rows) - len(shown)} smaller topics", rest, given, whole))
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


def _tile(name: str, size_bytes: int, given_bytes: int | None, whole: int) -> dict[str, Any]:
    """`given_bytes` are reclaimable; None: that is not known, as without any committed group."""
    share = min(1.0, (given_bytes or 0) / size_bytes) if size_bytes else 0.0
    step = min(len(SHARE_SCALE) - 1, int(share * len(SHARE_SCALE)))
    given = f"{formats.size(given_bytes)} reclaimable" if given_bytes else "none reclaimable"
    said = f"{share:.0%}"
    if given_bytes is None:
        said, given = formats.UNKNOWN, "what is reclaimable is unknown"
    return {
        "name": name,
        "value": size_bytes,
        "itemStyle": {"color": _UNKNOWN if given_bytes is None else SHARE_SCALE[step]},
        "label": {
            "show": size_bytes >= _LEAST_LABELLED * whole,
            "formatter": f"{name}\n{formats.size(size_bytes)} · {said}",
            "color": "#ffffff" if step >= 3 else "#0b1220",
            "fontSize": 12,
            "lineHeight": 16,
            "overflow": "truncate",
        },
        "tooltip": {"formatter": f"{name}: {formats.size(size_bytes)} on disk, {given}"},
    }
