"""What a log keeps under a retention, by the rate of what came. Pure."""

from __future__ import annotations

import numpy as np

from dashboard.estimate.curves import Floats

# Before the window in which a topic's rate was seen, it may have been so many times more or less.
SWING = 2.0


def kept(come: Floats, seen: Floats, hours: Floats | float, segment: Floats) -> dict[str, Floats]:
    """Bytes that stay for `hours`: the most (`soonest` leads to a full disk), likely, the least.

    `come`: bytes per hour, seen for so many hours; `segment`: bytes of full segments, for whole
    ones leave (UnifiedLog.deleteRetentionMsBreachedSegments): up to one per replica stays longer.
    """
    within = np.minimum(seen, hours)
    before = hours - within
    return {
        "soonest": come * (within + before * SWING) + segment,
        "likely": come * hours + segment / 2,
        "latest": come * (within + before / SWING),
    }
