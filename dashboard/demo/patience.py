"""How often a part of the demo that ends is brought back before that is called pointless."""

from __future__ import annotations

from collections import defaultdict, deque

MOST = 3
WITHIN_SECONDS = 120.0


class Patience:
    """A demo may run for days and meet many faults: only ends in quick succession count."""

    def __init__(self) -> None:
        self._ends: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MOST))

    def lasts(self, part: str, now: float) -> bool:
        """Note that a part ended at `now` (monotonic seconds); False: too often in a row."""
        ends = self._ends[part]
        lasts = len(ends) < MOST or now - ends[0] > WITHIN_SECONDS
        ends.append(now)
        return lasts
