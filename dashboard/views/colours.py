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
GUARDED = Meaning("unknown while guarded", "#94a3b8", "#475569", "#cbd5e1", "▨")
DANGER = Meaning("danger", "#b91c1c", "#b91c1c", "#fca5a5", "▲")

# In one hue, away from the page's colour: the share of a topic that is reclaimable, 0 % to 100 %;
# fill and ink of each step, and of a share that is not known.
SHARE_ON_LIGHT = (
    ("#e6efee", "#0b1220"), ("#b3d6d2", "#0b1220"), ("#6fb3ac", "#0b1220"), ("#257d75", "#ffffff"),
    ("#0f766e", "#ffffff"),
)  # fmt: skip
SHARE_ON_DARK = (
    ("#15302f", "#f1f5f9"), ("#175350", "#f1f5f9"), ("#17756d", "#ffffff"), ("#3fb5a6", "#0b1220"),
    ("#7fe3d4", "#0b1220"),
)  # fmt: skip
SHARE_UNKNOWN_ON_LIGHT, SHARE_UNKNOWN_ON_DARK = ("#cbd5e1", "#0b1220"), ("#475569", "#f8fafc")

# A follower's lag, short to long, in one hue: fill and ink of each step.
LAG_ON_LIGHT = (
    ("#e8eef8", "#0b1220"), ("#b9cdf0", "#0b1220"), ("#7fa3e0", "#0b1220"), ("#2f62bd", "#ffffff"),
    ("#173f8a", "#ffffff"),
)  # fmt: skip
LAG_ON_DARK = (
    ("#1b2a45", "#f1f5f9"), ("#23406f", "#ffffff"), ("#2f5fae", "#ffffff"), ("#6f9fea", "#0b1220"),
    ("#b9d3ff", "#0b1220"),
)  # fmt: skip
