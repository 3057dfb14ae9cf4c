"""Sums over windows of time: two panes per row, the running one and the one before.

A pane holds enough of its samples for a mean, a slope and the extremes: n, Σx, Σx², and of each
y first, last, min, max, Σy and Σxy. Sums stay small, so that nothing is lost to rounding: x are
seconds from the pane's start, y is taken relative to the pane's first value. Panes are aligned to
UTC; a window is the running pane and, where it is the one just before it, the other: 1 to 2 panes.
Where it is asked how sure a slope is, Σy² and the products of the steps from sample to sample are
kept too (`analytics.replicas.growth`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dashboard.estimate.curves import Flags, Ints

SECOND = 1_000_000  # times are microseconds
Floats = npt.NDArray[np.float64]
Pane = dict[str, npt.NDArray[Any]]
_OF_Y = ("first", "last", "min", "max")
SPREAD = ("yy", "dx", "dxdx", "dxdy", "dydy")


@dataclass(frozen=True)
class Kind:
    """What one kind of pane keeps: how long it is (microseconds), which y, and which flows.

    Flows are amounts that add up: what came between a sample and the one before. They are counted
    from `since`: the last sample before the pane, where there is one, else the pane's first.
    `unsure` are those y of which the slope's error is asked, with SPREAD each: Σy², and over the
    steps from the sample before, also where that lies in the pane before, Σdx, Σdx², Σdx·dy, Σdy².
    """

    length: int
    values: tuple[str, ...]
    flows: tuple[str, ...] = ()
    unsure: tuple[str, ...] = ()

    def whole(self) -> list[str]:
        """Names of the columns that hold integers; times are microseconds."""
        since = ["since", *self.flows] if self.flows else []
        of_values = [f"{y}_{part}" for y in self.values for part in _OF_Y]
        return ["from", "n", "first_at", "last_at", *since, *of_values]

    def sums(self) -> list[str]:
        """Names of the columns that hold sums of fractions."""
        lines = [f"{y}_{part}" for y in self.values for part in ("y", "xy")]
        return ["x", "xx", *lines, *self.spread()]

    def spread(self) -> list[str]:
        """Those of `sums` that tell of errors. NaN: not known, carried from an older release."""
        return [f"{y}_{part}" for y in self.unsure for part in SPREAD]

    def start(self, at: int) -> int:
        """When the pane began that this instant lies in."""
        return at // self.length * self.length


@dataclass(frozen=True)
class Panes:
    """The running pane of every row and the one before it. n is 0 where a pane has no sample."""

    now: Pane
    before: Pane

    def take(self, row: Ints) -> Panes:
        """The panes of these rows; of row -1 empty ones."""
        return Panes(taken(self.now, row), taken(self.before, row))


@dataclass(frozen=True)
class Samples:
    """One sample of each row that was `seen`: its time and its value of every y.

    `start` is that of the pane that all samples of a snapshot belong to, in microseconds. `kind`:
    that of the panes, where it has y that are `unsure`.
    """

    seen: Flags
    start: int
    at: Ints
    values: Mapping[str, Ints]
    flows: Mapping[str, Ints] = field(default_factory=dict)
    kind: Kind | None = None


@dataclass(frozen=True)
class Spread:
    """Of one y in a window: squares about its means, and sums over the steps between samples."""

    sxx: Floats
    sxy: Floats
    syy: Floats
    dx: Floats
    dxdx: Floats
    dxdy: Floats
    dydy: Floats


@dataclass(frozen=True)
class Window:
    """What the panes of each row say together; `whole` where the pane before belongs to it.

    `seconds` lie between its first and its last sample. `slope`: of each y, per second, a straight
    line through all samples (least squares); 0 where they have but one time. `spread`: what
    `analytics.replicas.growth` tells the slope's error from, of each y of which that is asked.
    """

    whole: Flags
    n: Ints
    seconds: Floats
    slope: Mapping[str, Floats]
    spread: Mapping[str, Spread]


def empty(kind: Kind, rows: int) -> Panes:
    """Panes without a sample."""
    whole = {name: np.zeros(rows, dtype=np.int64) for name in kind.whole()}
    one: Pane = whole | {name: np.zeros(rows) for name in kind.sums()}
    return Panes(one, dict(one))


def added(panes: Panes, samples: Samples, anew: Flags) -> Panes:
    """The panes with one more sample. Rows that begin `anew` forget what they had.

    The first sample in a new pane makes the running pane the one before; a row without a sample
    keeps its panes, so its last one is known for as long as the row is. One from before the last
    sample (the clock stepped back) begins anew too: no time would lie between the two.
    """
    back = (panes.now["n"] > 0) & (samples.at < panes.now["last_at"])
    anew = anew | (samples.seen & back)
    begins = samples.seen & ((panes.now["n"] == 0) | (panes.now["from"] != samples.start) | anew)
    fresh = begins | anew
    before = panes.before
    if fresh.any():
        rolled = begins & (panes.now["n"] > 0)
        before = {
            name: np.where(anew, 0, np.where(rolled, panes.now[name], old))
            for name, old in panes.before.items()
        }
    now = _with(panes.now, samples, begins, fresh)
    follows = samples.seen & (panes.now["n"] > 0) & ~anew
    if samples.flows:
        last = np.where(follows, panes.now["last_at"], samples.at)
        kept = np.where(fresh, 0, panes.now["since"])
        now["since"] = np.where(begins, last, kept)
    if samples.kind:
        now |= _steps(panes.now, samples, samples.kind, follows, fresh)
    for name, amount in samples.flows.items():
        now[name] = np.where(fresh, 0, panes.now[name]) + np.where(follows, amount, 0)
    return Panes(now, before)


def window(panes: Panes, kind: Kind) -> Window:
    """The running pane and the one before it as one."""
    now, before = panes.now, panes.before
    whole = (before["n"] > 0) & (before["from"] == now["from"] - kind.length)
    n = now["n"] + np.where(whole, before["n"], 0)
    count = np.maximum(n, 1)
    dx = kind.length / SECOND  # x of the running pane from the start of the one before
    x, xx = _joined(now["n"], now["x"], now["xx"], dx)
    x, xx = x + np.where(whole, before["x"], 0), xx + np.where(whole, before["xx"], 0)
    sxx = xx - x * x / count
    slope, spread = {}, {}
    for y in kind.values:
        # As a fraction: squares of bytes are no 64-bit integers.
        dy = np.where(whole, now[f"{y}_first"] - before[f"{y}_first"], 0).astype(np.float64)
        total = now[f"{y}_y"] + now["n"] * dy
        xy = now[f"{y}_xy"] + dx * now[f"{y}_y"] + dy * (now["x"] + now["n"] * dx)
        total = total + np.where(whole, before[f"{y}_y"], 0)
        xy = xy + np.where(whole, before[f"{y}_xy"], 0)
        sxy = xy - x * total / count
        slope[y] = np.where((n > 1) & (sxx > 1e-6), sxy / np.where(sxx > 0, sxx, 1), 0.0)
        if y in kind.unsure:
            squares = now[f"{y}_yy"] + 2 * dy * now[f"{y}_y"] + now["n"] * dy * dy
            squares = squares + np.where(whole, before[f"{y}_yy"], 0)
            steps = (now[f"{y}_{p}"] + np.where(whole, before[f"{y}_{p}"], 0) for p in SPREAD[1:])
            spread[y] = Spread(sxx, sxy, squares - total * total / count, *steps)
    began = np.where(whole, before["first_at"], now["first_at"])
    seconds = (now["last_at"] - began) / SECOND
    return Window(whole, n, seconds, slope, spread)


def _joined(n: Ints, x: Floats, xx: Floats, dx: float) -> tuple[Floats, Floats]:
    """Σx and Σx² of samples that lie `dx` later."""
    return x + n * dx, xx + 2 * dx * x + n * dx * dx


def _steps(now: Pane, samples: Samples, kind: Kind, follows: Flags, fresh: Flags) -> Pane:
    """The sums over steps; one over more than a whole pane belongs to no window."""
    near = follows & (samples.start - now["from"] <= kind.length)
    dx = np.where(near, (samples.at - now["last_at"]) / SECOND, 0.0)
    found = {}
    for y in kind.unsure:
        dy = np.where(near, samples.values[y] - now[f"{y}_last"], 0).astype(np.float64)
        amounts = (dx, dx * dx, dx * dy, dy * dy)
        for part, amount in zip(SPREAD[1:], amounts, strict=True):
            found[f"{y}_{part}"] = np.where(fresh, 0, now[f"{y}_{part}"]) + amount
    return found


def _with(now: Pane, samples: Samples, begins: Flags, fresh: Flags) -> Pane:
    seen, at = samples.seen, samples.at
    x = np.where(seen, (at - samples.start) / SECOND, 0.0)
    old = {name: np.where(fresh, 0, values) for name, values in now.items()} if fresh.any() else now
    found: Pane = {
        "from": np.where(seen, samples.start, old["from"]),
        "n": old["n"] + seen,
        "first_at": np.where(begins, at, old["first_at"]),
        "last_at": np.where(seen, at, old["last_at"]),
        "x": old["x"] + x,
        "xx": old["xx"] + x * x,
    }
    for y, values in samples.values.items():
        first = np.where(begins, values, old[f"{y}_first"])
        relative = np.where(seen, values - first, 0).astype(np.float64)
        found[f"{y}_first"] = first
        found[f"{y}_last"] = np.where(seen, values, old[f"{y}_last"])
        for part, least in (("min", np.minimum), ("max", np.maximum)):
            extreme = np.where(begins, values, least(old[f"{y}_{part}"], values))
            found[f"{y}_{part}"] = np.where(seen, extreme, old[f"{y}_{part}"])
        found[f"{y}_y"] = old[f"{y}_y"] + relative
        found[f"{y}_xy"] = old[f"{y}_xy"] + x * relative
        if samples.kind and y in samples.kind.unsure:
            found[f"{y}_yy"] = old[f"{y}_yy"] + relative * relative
    return found


def taken(pane: Pane, row: Ints) -> Pane:
    """These rows of a pane; of row -1 zeros."""
    there = row >= 0
    if not len(next(iter(pane.values()))):
        return {name: np.zeros(len(row), values.dtype) for name, values in pane.items()}
    if there.all():
        return {name: values[row] for name, values in pane.items()}
    at = np.maximum(row, 0)
    return {name: np.where(there, values[at], 0) for name, values in pane.items()}
