"""Colour is meaning, the same on every page, and always beside a word or an icon."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """A kind of bytes or a state: its word, its fill, and its text colour on light and dark."""

    word: str
    fill: str
    on_light: str
    on_dark: str
    icon: str


RECLAIMABLE = Meaning("reclaimable", "#0f766e", "#0f766e", "#5eead4", "◆")
HELD = Meaning("held back", "#b45309", "#92400e", "#fcd34d", "◼")
LIVE = Meaning("live and needed", "#64748b", "#475569", "#cbd5e1", "●")
ORPHAN = Meaning("orphan", "#7c2d6b", "#7c2d6b", "#f0abfc", "✚")
UNKNOWN = Meaning("not explained", "#94a3b8", "#475569", "#cbd5e1", "▨")
DANGER = Meaning("danger", "#b91c1c", "#b91c1c", "#fca5a5", "▲")

# From light to dark in one hue: the share of a topic that is reclaimable, 0 % to 100 %.
SHARE_SCALE = ("#e6efee", "#b3d6d2", "#6fb3ac", "#2f8f86", "#0f766e")
