"""What a soak must have shown: slopes, zombies, gaps between snapshots, receipts. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dashboard.purge.receipt.model import Receipt

Sample = Mapping[str, Any]
# Growth in the judged half that counts as flat: a share of the median, or so much.
ALLOWED = {"rss_kb": (0.10, 12 * 1024.0), "fds": (0.05, 4.0)}
SHORTEST_SECONDS = 600.0  # less than that judges a process's warm-up
ZOMBIE_SAMPLES = 3  # seen in so many samples in a row it is not being reaped
# Spark's own script `spark-class` becomes Java by exec and leaves Java the subshell that built its
# command, which nobody waits for: one for each Java, and it goes with that.
OF_SPARK = "pyspark-shell"


@dataclass(frozen=True, slots=True)
class Trend:
    """One process's growth of one measure over the judged time, by least squares."""

    role: str
    pid: int
    measure: str
    samples: int
    median: float
    growth: float
    error: float  # of `growth`, one standard deviation
    allowed: float
    peak_growth: float | None = None  # of the judged time's most above the most before it

    @property
    def flat(self) -> bool:
        """Not above what is allowed, nor above what a measure that swings so does by chance.

        Handles have a ceiling, every client connected to every broker: half an hour that begins
        with brokers away rises to it, and only what leaks goes past the ceiling seen before.
        """
        if self.growth <= max(self.allowed, 2 * self.error):
            return True
        return self.peak_growth is not None and self.peak_growth <= self.allowed


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Least squares: value a second and its standard error; zeros of fewer than three moments.

    A swing lasts for some samples (a client's sockets while a broker is away), so that neighbours
    tell less than as many independent ones: the error is widened by their correlation, as for a
    first-order autoregression.
    """
    xs, ys = [x for x, _ in points], [y for _, y in points]
    if len(set(xs)) < 3:
        return 0.0, 0.0
    line = statistics.linear_regression(xs, ys)
    off = [y - line.slope * x - line.intercept for x, y in points]
    squares = sum(o * o for o in off)
    if squares == 0:
        return line.slope, 0.0
    alike = min(max(sum(a * b for a, b in pairwise(off)) / squares, 0.0), 0.9)
    around = statistics.mean(xs)
    spread = sum((x - around) ** 2 for x in xs)
    alone = (squares / (len(xs) - 2) / spread) ** 0.5
    return line.slope, alone * ((1 + alike) / (1 - alike)) ** 0.5


def trends(samples: Iterable[Sample], since: float, roles: Sequence[str]) -> list[Trend]:
    """RSS and open files of each process of `roles` that lived long enough after `since`."""
    lives: dict[tuple[str, int, int], list[Sample]] = defaultdict(list)
    before: dict[tuple[str, int, int], list[Sample]] = defaultdict(list)
    for s in samples:
        if s["role"] in roles:
            kept = lives if s["at"] >= since else before
            kept[s["role"], s["pid"], s["started"]].append(s)
    found = []
    for name, life in sorted(lives.items()):
        if life[-1]["at"] - life[0]["at"] < SHORTEST_SECONDS:
            continue
        found += [_trend(*name[:2], measure, life, before[name]) for measure in ALLOWED]
    return found


def _trend(
    role: str, pid: int, measure: str, life: Sequence[Sample], before: Sequence[Sample]
) -> Trend:
    share, least = ALLOWED[measure]
    points = [(s["at"], float(s[measure])) for s in life if s[measure] is not None]
    median = statistics.median(y for _, y in points) if points else 0.0
    growth, error = (a * (life[-1]["at"] - life[0]["at"]) for a in slope(points))
    allowed = max(share * median, least)
    rise = _above_peak([y for _, y in points], before) if measure == "fds" else None
    return Trend(role, pid, measure, len(points), median, growth, error, allowed, rise)


def _above_peak(handles: Sequence[float], before: Sequence[Sample]) -> float | None:
    """By how much; None where a life is too young to have shown its ceiling."""
    shown = [s for s in before if s["fds"] is not None]
    if not handles or not shown or shown[-1]["at"] - shown[0]["at"] < SHORTEST_SECONDS:
        return None
    return max(handles) - max(float(s["fds"]) for s in shown)


def lasting_zombies(samples: Iterable[Sample]) -> list[str]:
    """Zombies that were there in ZOMBIE_SAMPLES samples in a row, but one of each Spark's Java."""
    run: dict[tuple[int, int], int] = {}
    found: dict[tuple[int, int], str] = {}
    for s in samples:
        if s["role"] != "all":
            continue
        now = {(z[0], z[1]): f"process {z[0]} of {z[2]} ({z[3]})" for z in _unborne(s["zombies"])}
        run = {name: run.get(name, 0) + 1 for name in now}
        found |= {name: now[name] for name, times in run.items() if times >= ZOMBIE_SAMPLES}
    return sorted(found.values())


def _unborne(zombies: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Without the first one below each Spark's Java."""
    first = {z[2]: z[0] for z in reversed(zombies) if OF_SPARK in z[3]}
    return [z for z in zombies if first.get(z[2]) != z[0]]


def gaps(moments: Sequence[float], until: float, longest: float) -> list[tuple[float, float]]:
    """The stretches of more than `longest` seconds without any of `moments`, to `until`."""
    edges = [*moments, until]
    return [(a, b) for a, b in pairwise(edges) if b - a > longest]


def during(faults: Iterable[Mapping[str, Any]], begin: float, end: float) -> list[str]:
    """Which faults were carried out while nothing came, or shortly before."""
    return [
        f"{f['fault']} at {f['began']:.0f} s"
        for f in faults
        if f.get("began") is not None and begin - 5 <= f["began"] and f["began"] < end
    ]


# Causes that lie beyond any estimate.
_OF_THE_CLUSTER = (
    "came back", "have not arrived", "moved on past the target", "nothing could be estimated",
    "sizes were not read", "segments of an earlier purge", "the log cleaner works on",
    "began anew",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a receipt came out: `exact`, `inside`, `named`, `nothing`, or a fault in words."""

    verdict: str
    detail: str = ""

    @property
    def explained(self) -> bool:
        return self.verdict in ("exact", "inside", "named", "nothing")


def outcome(
    receipt: Receipt | None,
    bounds: tuple[int | None, int | None],
    segment_bytes: int,
    *,
    written: bool,
) -> Outcome:
    """Whether a receipt's freed bytes are the predicted ones, or why not.

    Inside: between the plan's `bounds` (low, high), give or take the bytes in doubt. Outside of
    them a cause must be named, and an estimator may err by one segment of each replica at most,
    one that was rolled or left meanwhile; or upwards where much was `written` shortly before the
    plan, since it counts nothing past its last look. No replica frees more than it held.
    """
    if receipt is None or (receipt.final and not receipt.replicas):
        return Outcome("nothing")
    if not receipt.final:  # one whose records came back is watched on, for an hour
        told = str(receipt.gap)
        return Outcome("named" if "came back" in told else "not final", told)
    predicted, freed = receipt.predicted_bytes, receipt.freed_bytes
    if predicted is None or freed is None:
        named = receipt.gap is not None or predicted is None
        return Outcome("named" if named else "unnamed", str(receipt.gap))
    if too_much := _more_than_held(receipt, segment_bytes):
        return Outcome("too much", too_much)
    unsure = sum(r.unsure_bytes for r in receipt.replicas)
    low, high = bounds
    exact = abs(freed - predicted) <= unsure
    inside = None not in (low, high) and (low or 0) - unsure <= freed <= (high or 0) + unsure
    if exact or inside:
        return Outcome("exact" if exact else "inside")
    most = segment_bytes * len(receipt.replicas) + unsure
    return _outside(receipt, freed - predicted, most, written)


def _more_than_held(receipt: Receipt, segment_bytes: int) -> str | None:
    """Where; that the receipt leaves as much in doubt is no excuse."""
    for r in receipt.replicas:
        if r.freed_bytes > r.before_bytes + segment_bytes:
            place = f"{r.topic}-{r.partition} on broker {r.broker_id}"
            return f"{place} freed {r.freed_bytes:,} of {r.before_bytes:,} bytes"
    return None


def _outside(receipt: Receipt, off: int, most: int, written: bool) -> Outcome:
    gap = receipt.gap
    told = f"freed {off:+,} bytes against predicted {receipt.predicted_bytes:,}: {gap}"
    if not gap:
        return Outcome("unnamed", told)
    if any(words in gap for words in _OF_THE_CLUSTER) or (off > 0 and written):
        return Outcome("named", told)
    return Outcome("named" if abs(off) <= most else "too far", told)
