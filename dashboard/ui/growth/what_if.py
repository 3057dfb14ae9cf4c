"""When would each log dir be full if retention, a waiver or a policy changed what stays? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import records
from dashboard.estimate.curve_tables import ReplicaCurves, integers
from dashboard.estimate.curves import Flags, Floats, Freed, Ints, kept
from dashboard.store.finding_rows import DiskRow, GrowthRow
from dashboard.views import headline

# What the growth what-if stands on: log dirs, and what each topic does in each of them. Pure.


@dataclass(frozen=True, slots=True)
class Disk:
    """One log dir, and how its disk's used bytes grow per hour; None is not known."""

    broker_id: int
    log_dir: str
    total_bytes: int | None
    usable_bytes: int | None
    low: float | None
    likely: float | None
    high: float | None
    growth: GrowthRow | None = None

    @property
    def used_bytes(self) -> int | None:
        if self.total_bytes is None or self.usable_bytes is None:
            return None
        return self.total_bytes - self.usable_bytes


@dataclass(frozen=True)
class Parts:
    """One row per topic and log dir that holds bytes of it.

    `topic` and `disk` are indices into `names` and the list of disks; `part` is the row of each
    replica of the curves, -1 where its log dir is not listed. `size`: bytes of log; `came` and
    `left`: bytes per hour, NaN where not known; `segment`: bytes of a full segment, over the
    replicas; `hours`: of the window in which the rates were seen.
    """

    names: list[str]
    part: Ints
    topic: Ints
    disk: Ints
    size: Floats
    came: Floats
    left: Floats
    segment: Floats
    replicas: Ints
    hours: Floats

    @property
    def growth(self) -> Floats:
        return np.asarray(self.came - self.left)


def disks_of(disks: pa.Table, growth: pa.Table) -> list[Disk]:
    """Every log dir that is known by name, in the order of the findings table `disks`."""
    rates = headline.of_disks(growth)
    found = []
    for row in records(disks, DiskRow):
        if row.log_dir is None:
            continue
        rate = rates.get((row.broker_id, row.log_dir))
        low, likely, high = (
            getattr(rate, "used_bytes_per_hour" + end, None) for end in ("_low", "", "_high")
        )
        sizes = row.total_bytes, row.usable_bytes
        found.append(Disk(row.broker_id, row.log_dir, *sizes, low, likely, high, rate))
    return found


def parts_of(curves: ReplicaCurves, growth: pa.Table, disks: list[Disk]) -> Parts:
    """Bytes of the curves' replicas by topic and log dir, with the rates that `growth` tells."""
    topics = pc.unique(curves.places["topic"])
    keys = _keys(curves.places, topics, disks)
    rows, part = np.unique(keys, return_inverse=True)
    if len(rows) and rows[0] < 0:
        rows, part = rows[1:], part - 1
    known = part >= 0
    read = curves.curves
    segment = np.minimum(read.segment_bytes, read.rolled)
    both = growth.filter(pc.and_(growth["topic"].is_valid(), growth["broker_id"].is_valid()))
    told = _Rates(both, _keys(both, topics, disks), rows)
    return Parts(
        names=topics.to_pylist(),
        part=part.astype(np.int64),
        topic=rows // max(len(disks), 1),
        disk=rows % max(len(disks), 1),
        size=_sums(read.below[read.last], part, known, len(rows)),
        came=told.of("bytes_in_per_hour"),
        left=told.of("bytes_out_per_hour"),
        segment=_sums(segment, part, known, len(rows)),
        replicas=np.bincount(part[known], minlength=len(rows)).astype(np.int64),
        hours=np.asarray(told.of("window_seconds") / 3600),
    )


class _Rates:
    """Columns of growth rows, by the row of the parts."""

    def __init__(self, rows: pa.Table, keys: Ints, wanted: Ints) -> None:
        self._rows = rows
        order = np.argsort(keys)
        at = np.searchsorted(keys[order], wanted)
        inside = np.minimum(at, max(len(keys) - 1, 0))
        there = keys[order][inside] == wanted if len(keys) else np.zeros(len(wanted), dtype=bool)
        self._at = np.where(there, order[inside] if len(keys) else 0, -1)

    def of(self, name: str) -> Floats:
        taken = self._rows[name].take(pa.array(self._at, mask=self._at < 0))
        return np.asarray(pc.cast(taken, pa.float64()).to_numpy(), dtype=np.float64)


def _keys(table: pa.Table, topics: pa.Array, disks: list[Disk]) -> Ints:
    """One number per row, of its topic and log dir; -1 where either is not among them."""
    names = pa.array([f"{disk.broker_id} {disk.log_dir}" for disk in disks], pa.string())
    dirs = pc.binary_join_element_wise(table["broker_id"].cast(pa.string()), table["log_dir"], " ")
    disk = integers(pc.index_in(dirs, value_set=names), -1)
    topic = integers(pc.index_in(table["topic"], value_set=topics), -1)
    return np.where((disk < 0) | (topic < 0), -1, topic * len(disks) + disk)


def _sums(values: Ints, part: Ints, known: np.ndarray, rows: int) -> Floats:
    weights = values[known].astype(np.float64)
    return np.bincount(part[known], weights=weights, minlength=rows).astype(np.float64)


# What a shorter retention, or a purge again and again, does to a topic in a log dir. Pure.
#
# Every effect has three sides: `soonest` leads to the soonest full disk (least leaves, most comes),
# `likely`, and `latest`.


@dataclass(frozen=True)
class Side:
    """Per part: bytes that leave; how growth per hour changes at once, and again `after` hours."""

    gone: Floats
    change: Floats
    after: Floats
    again: Floats


@dataclass(frozen=True)
class Effect:
    """What is done to each part, from its three sides; NaN is not known."""

    soonest: Side
    likely: Side
    latest: Side


@dataclass(frozen=True)
class Expired:
    """Bytes per part that are older than a retention, as an inventory tells; NaN: there is none.

    `closed` are whole closed segments, `all` with the active one, which Kafka rolls once it is old.
    """

    closed: Floats
    all: Floats


def nothing(parts: Parts) -> Effect:
    """Everything stays as it is."""
    zero = np.zeros(len(parts.size))
    side = Side(zero, zero, np.full(len(zero), np.inf), zero)
    return Effect(side, side, side)


def retention(parts: Parts, chosen: Flags, hours: float, today: Floats, expired: Expired) -> Effect:
    """Records older than `hours` leave the `chosen` parts; `today` is their retention now, hours.

    An inventory's segments say what leaves. Without them a log keeps what comes in that time, by
    the rate of the window as `curves.kept` has it. A log that has not reached its retention yet
    grows on until it has, then as much leaves as comes.
    """
    keeps = kept(np.maximum(parts.came, 0.0), parts.hours, hours, parts.segment)
    told = {"soonest": expired.closed, "likely": expired.closed, "latest": expired.all}
    none = np.zeros(len(parts.size))
    unknown = {"soonest": none, "likely": none + np.nan, "latest": parts.size}
    sides = {}
    for name, keep in keeps.items():
        guessed = np.where(np.isnan(keep), unknown[name], np.maximum(parts.size - keep, 0.0))
        exact = np.isnan(told[name])
        gone = np.where(exact, guessed, told[name])
        longer = hours > today
        sides[name] = _levelling(parts, chosen, np.where(longer, 0.0, gone), keep, longer)
    return Effect(**sides)


def _levelling(parts: Parts, chosen: Flags, gone: Floats, keep: Floats, longer: Flags) -> Side:
    """Growth ends when a log holds what its retention keeps: now, or when it has grown to that.

    Where rates are not known yet it stays what it is in the slope of the whole disk.
    """
    room = np.maximum(keep - parts.size, 0.0)
    growth = np.where(longer, parts.came, parts.growth)
    full = (room <= 0) | (gone > 0)
    grows = growth > 0
    after = np.where(full | ~grows, np.inf, room / np.where(grows, growth, 1.0))
    change = np.nan_to_num(np.where(full, -parts.growth, growth - parts.growth))
    return Side(
        np.where(chosen, gone, 0.0),
        np.where(chosen, change, 0.0),
        np.where(chosen, after, np.inf),
        np.where(chosen & ~full & grows, -growth, 0.0),
    )


def purged(parts: Parts, freed: Freed) -> Effect:
    """One purge: what its replicas free at once leaves, and growth goes on as it was."""
    known = parts.part >= 0

    def side(values: np.ndarray) -> Side:
        weights = values[known].astype(np.float64)
        gone = np.bincount(parts.part[known], weights=weights, minlength=len(parts.size))
        stays = np.zeros(len(gone))
        return Side(gone.astype(np.float64), stays, np.full(len(gone), np.inf), stays)

    return Effect(side(freed.once_low), side(freed.once), side(freed.once_high))


def again_and_again(
    parts: Parts, once: Effect, chosen: Flags, backlog: tuple[Floats, Floats, Floats]
) -> Effect:
    """A policy on the `chosen` parts: after the first purge only what nobody consumed yet grows.

    `backlog`: by topic, low, likely and high, the bytes per hour by which that grew lately, over
    all log dirs; each has the share of it that it has of what comes. Growth that is not known stays
    what it is in the slope of the whole disk.
    """
    come = np.nan_to_num(np.maximum(parts.came, 0.0))
    total = np.bincount(parts.topic, weights=come, minlength=len(parts.names))[parts.topic]
    share = np.where(total > 0, come / np.where(total > 0, total, 1.0), 0.0)
    low, likely, high = (values[parts.topic] * share for values in backlog)

    def side(old: Side, grows: Floats) -> Side:
        known = chosen & ~np.isnan(parts.growth)
        change = np.where(known, grows - parts.growth, old.change)
        return Side(old.gone, change, old.after, old.again)

    return Effect(side(once.soonest, high), side(once.likely, likely), side(once.latest, low))


def together(first: Effect, second: Effect) -> Effect:
    """Both at once: each takes a log from its begin, so the one that takes more counts.

    The growth that is left is the smaller of the two; what levels off later is the first one's,
    where the second changes no growth.
    """

    def side(a: Side, b: Side) -> Side:
        alone = b.change == 0
        mine = alone | ((a.change == 0) & np.isinf(a.after))
        both = np.where(alone, a.change, b.change)
        return Side(
            np.maximum(a.gone, b.gone),
            np.where(mine, both, np.minimum(a.change, b.change)),
            np.where(alone, a.after, np.inf),
            np.where(alone, a.again, 0.0),
        )

    return Effect(
        side(first.soonest, second.soonest),
        side(first.likely, second.likely),
        side(first.latest, second.latest),
    )


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
