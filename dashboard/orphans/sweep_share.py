"""How much of a broker may leave at once: more smells of lost metadata."""

from __future__ import annotations

from dashboard.core.sizes import binary
from dashboard.orphans.sweep.sweep_report import Refusal
from dashboard.safety.orphan_words import TOO_MANY


def over_share(
    folders: tuple[int, int], log_bytes: tuple[int, int], most_share: float
) -> Refusal | None:
    """The refusal of everything, or None. Each pair is what would leave, and the whole."""
    leaving, every = folders
    gone, whole = log_bytes
    if leaving <= most_share * every and gone <= most_share * whole:
        return None
    return Refusal(
        "share",
        f"{leaving} of {every} folders and {binary(gone)} of {binary(whole)} would be set aside "
        f"at once, more than {most_share * 100:.3g} %: {TOO_MANY}",
    )
