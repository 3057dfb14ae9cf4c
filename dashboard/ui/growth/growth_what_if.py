"""When would each log dir be full if retention, a waiver or a policy changed what stays? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dashboard.estimate.curves import Ints
from dashboard.ui.growth.growth_effects import Effect, Side
from dashboard.ui.growth.growth_facts import Disk, Parts

_DAY = 24.0


@dataclass(frozen=True, slots=True)
class Range:
    """Three sides of one figure. None: not known; of days inf: never, as far as a line tells."""

    soonest: float | None
    likely: float | None
    latest: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One log dir: bytes that leave, growth per hour from then on, days until it is full."""

    disk: Disk
    gone: Range
    growth: Range
    days: Range

    @property
    def used_bytes(self) -> float | None:
        used = self.disk.used_bytes
        return None if used is None or self.gone.likely is None else used - self.gone.likely


def outcomes(disks: Sequence[Disk], parts: Parts, effect: Effect) -> list[Outcome]:
    """Every log dir after the effect. Steepest slope and least that leaves make the soonest day.

    Its disk's used bytes go on along today's slope, but for the changes of the parts on it. Bounds
    of slope and parts are added, so low to high is at least as wide as its parts are sure.
    """
    rows: list[Ints] = [np.flatnonzero(parts.disk == at) for at in range(len(disks))]
    return [_outcome(disk, rows[at], effect) for at, disk in enumerate(disks)]


def _outcome(disk: Disk, rows: Ints, effect: Effect) -> Outcome:
    sides = (effect.soonest, effect.likely, effect.latest)
    gone = [_known(float(side.gone[rows].sum())) for side in sides]
    slopes = (disk.high, disk.likely, disk.low)
    growth = [_grows(slope, side, rows) for slope, side in zip(slopes, sides, strict=True)]
    days = [
        _days(disk, left, rate, side, rows)
        for left, rate, side in zip(gone, growth, sides, strict=True)
    ]
    return Outcome(disk, Range(*gone), _ordered(growth, most_first=True), _ordered(days))


def _ordered(sides: Sequence[float | None], *, most_first: bool = False) -> Range:
    """A log that shrinks by itself turns sides round: what is soonest stands first again."""
    known = sorted((side for side in (sides[0], sides[2]) if side is not None), reverse=most_first)
    return Range(known[0], sides[1], known[1]) if len(known) == 2 else Range(*sides)


def _grows(slope: float | None, side: Side, rows: Ints) -> float | None:
    return None if slope is None else _known(slope + float(side.change[rows].sum()))


def _days(
    disk: Disk, gone: float | None, rate: float | None, side: Side, rows: Ints
) -> float | None:
    if disk.usable_bytes is None or gone is None or rate is None:
        return None
    later = [
        (after, change)
        for after, change in zip(side.after[rows].tolist(), side.again[rows].tolist(), strict=True)
        if math.isfinite(after) and change
    ]
    hours = hours_to(disk.usable_bytes + gone, rate, later)
    return None if math.isnan(hours) else hours / _DAY


def hours_to(free_bytes: float, rate: float, later: Sequence[tuple[float, float]]) -> float:
    """Hours until `free_bytes` are taken at `rate` per hour, which changes at the `later` hours.

    inf: never.
    """
    now, left = 0.0, max(free_bytes, 0.0)
    for after, change in sorted(later):
        if rate > 0 and left <= rate * (after - now):
            return now + left / rate
        left, now, rate = left - rate * (after - now), after, rate + change
    return now + left / rate if rate > 0 else math.inf


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
