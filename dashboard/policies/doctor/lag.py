"""How far a group was behind in time: the longest that kept snapshots show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from dashboard.domain.columns import Flags, Ints
from dashboard.policies.doctor.history import History
from dashboard.policies.simulate.past_rows import ABSENT


@dataclass(frozen=True, slots=True)
class Lag:
    """The longest lag seen; `open_ended`: what is kept does not reach back to its beginning."""

    longest: timedelta
    open_ended: bool


def longest_lag(history: History, place: slice) -> Lag | None:
    """Over the partitions of one topic; None where no snapshot has commit and log end.

    A record above the commit of a snapshot was written at the earliest when the log last ended at
    that commit or below: that long a retention must reach at least.
    """
    end, committed = history.log_end[place], history.committed[place]
    known = (end != ABSENT) & (committed != ABSENT)
    if not known.any():
        return None
    waits = known & (end > committed)
    if not waits.any():
        return Lag(timedelta(0), False)
    unwritten, told = _last_unwritten(end, committed)
    seconds = np.array([(time - history.times[0]).total_seconds() for time in history.times])
    lags = np.where(waits, seconds[None, :] - seconds[unwritten], -1.0)
    longest = float(lags.max())
    return Lag(timedelta(seconds=longest), bool((~told & (lags == longest)).any()))


def _last_unwritten(end: Ints, committed: Ints) -> tuple[Ints, Flags]:
    """Per row and snapshot the last one, up to it, whose log ended at its commit or below.

    Where there is none it is the first, and the second array says so.
    """
    count = end.shape[1]
    up_to = np.tri(count, dtype=bool)
    below = (end[:, None, :] != ABSENT) & (end[:, None, :] <= committed[:, :, None]) & up_to
    told = below.any(axis=2)
    last = count - 1 - np.argmax(below[:, :, ::-1], axis=2)
    return np.where(told, last, 0), told
