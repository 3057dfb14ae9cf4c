"""What a shorter retention, or a purge again and again, does to a topic in a log dir. Pure.

Every effect has three sides: `soonest` leads to the soonest full disk (least leaves, most comes),
`likely`, and `latest`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dashboard.estimate.curves import Flags, Floats, Freed
from dashboard.estimate.expiring import kept
from dashboard.ui.growth.growth_facts import Parts


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
    the rate of the window as `expiring.kept` has it. A log that has not reached its retention yet
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
