"""Why slow followers are slow: what stands out, or what somebody asked for.

Asked for: a throttle, a reassignment. Standing out: a rack, a broker or one log dir whose share of
slow followers is far above that of its peers, robustly (median and MAD of the others). Else it is
the partition's own matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.words import binary

LEAST_SLOW = 2  # one slow follower says nothing about its broker
LEAST_SHARE = 0.1
_DEVIATIONS = 3.5
_MAD = 1.4826  # of a normal distribution's deviation
_LEAST_MAD = 0.02  # peers that are all alike still differ by chance
_UNLIMITED = 2**63 - 1
THROTTLES = ".replication.throttled."  # in the keys of settings
_SIDES = ("follower", "leader")
Row = Mapping[str, Any]
Told = tuple[str, str]  # cause and reason


def causes(
    followers: pa.Table, units: pa.Table, read: Mapping[str, pa.Table], numbers: Mapping[int, str]
) -> pa.Table:
    """`followers` with cause and reason, both null where a follower is not slow.

    In this order: broker down, throttle, reassignment, rack, broker, log dir, partition. `units`
    are those of all followers of the cluster; `read` is what was `asked` for; `numbers`: topic by
    topic_no.
    """
    asked = _Asked(read, numbers)
    known = _Units(units)
    slow = followers.filter(followers["slow"]).select(_COLUMNS).to_pylist()
    told = iter([_told(row, asked, known) for row in slow])
    found = [next(told) if is_slow else (None, None) for is_slow in followers["slow"].to_pylist()]
    for at, name in enumerate(("cause", "reason")):
        followers = followers.append_column(name, pa.array([f[at] for f in found], pa.string()))
    return followers


def asked(read: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """What throttles and reassignments are told from: the short tables, without other settings."""
    configs = read["configs"]
    throttles = pc.fill_null(pc.match_substring(configs["key"], THROTTLES), False)
    short = {name: read[name] for name in ("topics", "reassignments")}
    return short | {"configs": configs.filter(throttles)}


def units(followers: pa.Table) -> pa.Table:
    """rack, broker_id, log_dir, leader_id, slow, and how many of these `followers` are alike."""
    alive = followers.filter(followers["alive"])
    found = alive.group_by(_UNIT).aggregate([([], "count_all")])
    return found.rename_columns([*_UNIT, "followers"])


def summed(found: pa.Table) -> pa.Table:
    """`units` of parts: one row for those that are alike."""
    sums = found.group_by(_UNIT).aggregate([("followers", "sum")])
    return sums.rename_columns([*_UNIT, "followers"])


_UNIT = ["rack", "broker_id", "log_dir", "leader_id", "slow"]
_COLUMNS = ["topic", "partition", "broker_id", "log_dir", "rack", "leader_id", "alive"]


def _told(row: Row, asked: _Asked, units: _Units) -> Told:
    if not row["alive"]:
        return "broker down", f"broker {row['broker_id']} does not answer"
    return (
        asked.throttle(row)
        or asked.reassignment(row)
        or units.standing_out(row)
        or ("partition", "no broker, disk or rack stands out")
    )


class _Asked:
    """Throttles and reassignments of a snapshot."""

    def __init__(self, read: Mapping[str, pa.Table], numbers: Mapping[int, str]) -> None:
        self._values = {
            (row["scope"], row["name"], row["key"]): row["value"]
            for row in read["configs"].to_pylist()
            if row["value"]
        }
        self._moves = {
            (numbers.get(row["topic_no"]), row["partition"]): row
            for row in read["reassignments"].to_pylist()
        }

    def throttle(self, row: Row) -> Told | None:
        """A rate that is set on the broker, for a replica that the topic lists (KIP-73)."""
        for side, broker in zip(_SIDES, (row["broker_id"], row["leader_id"]), strict=True):
            rate = self._rate(side, broker)
            if rate is not None and self._listed(side, row, broker):
                key = f"{side}.replication.throttled.rate"
                return "throttle", f"{key} on broker {broker} is {binary(rate)} a second"
        return None

    def reassignment(self, row: Row) -> Told | None:
        """A replica that is being added; one that is being removed may lag as well."""
        move = self._moves.get((row["topic"], row["partition"]))
        if move is None:
            return None
        for what in ("adding", "removing"):
            if row["broker_id"] in (move[what] or ()):
                return "reassignment", f"broker {row['broker_id']} is in a reassignment: {what}"
        return None

    def _rate(self, side: str, broker: int | None) -> int | None:
        value = self._values.get(("broker", str(broker), f"{side}.replication.throttled.rate"))
        rate = int(value) if value and value.isdigit() else _UNLIMITED
        return rate if rate < _UNLIMITED else None

    def _listed(self, side: str, row: Row, broker: int | None) -> bool:
        key = f"{side}.replication.throttled.replicas"
        value = self._values.get(("topic", row["topic"], key)) or ""
        listed = [part.strip() for part in value.split(",")]
        return "*" in listed or f"{row['partition']}:{broker}" in listed


@dataclass(frozen=True)
class _Unit:
    """Followers on something they share: how many, and how many of them are slow."""

    followers: int
    slow: int

    @property
    def share(self) -> float:
        return self.slow / self.followers if self.followers else 0.0


class _Units:
    """Racks, brokers, log dirs and leaders, and which of them stand out among their peers."""

    def __init__(self, units: pa.Table) -> None:
        rows = units.to_pylist()
        self._dirs = _counted(rows, lambda r: (r["broker_id"], r["log_dir"]))
        self._brokers = _counted(rows, lambda r: r["broker_id"])
        led = (r for r in rows if r["leader_id"] is not None)
        self._leaders = _counted(led, lambda r: r["leader_id"])
        self._racks = _counted((r for r in rows if r["rack"]), lambda r: r["rack"])
        self._rack_of = {r["broker_id"]: r["rack"] for r in rows}
        self._out_leaders = {b for b in self._leaders if stands_out(b, self._leaders)}
        self._out_brokers = {b for b in self._brokers if stands_out(b, self._brokers)}

    def standing_out(self, row: Row) -> Told | None:
        """The rack, log dir or broker that stands out, else the broker that leads it."""
        broker, log_dir, rack = row["broker_id"], row["log_dir"], row["rack"]
        if rack and self._rack_out(rack):
            return "rack", _words(f"rack {rack} is slow", self._racks[rack])
        here = {d: unit for d, unit in self._dirs.items() if d[0] == broker and d[1] is not None}
        if len(here) > 1 and (broker, log_dir) in here and stands_out((broker, log_dir), here):
            unit = here[broker, log_dir]
            return "log dir", _words(f"broker {broker} is slow on disk {log_dir}", unit)
        leader = row["leader_id"]
        led, own = self._leaders.get(leader), self._brokers[broker]
        is_out = broker in self._out_brokers
        # A broker that follows one leader alone is as slow as that one; the wider explains more.
        if led and leader in self._out_leaders and not (is_out and own.slow >= led.slow):
            return "broker", _words(f"broker {leader} is a slow leader", led)
        return ("broker", _words(f"broker {broker} is slow", own)) if is_out else None

    def _rack_out(self, rack: str) -> bool:
        """Two brokers at least, most of its brokers slow, and other racks are not."""
        members = [b for b, r in self._rack_of.items() if r == rack]
        slow = [b for b in members if self._brokers[b].share >= LEAST_SHARE]
        return len(members) > 1 and 2 * len(slow) > len(members) and stands_out(rack, self._racks)


def stands_out(unit: Hashable, units: Mapping[Any, _Unit]) -> bool:
    """Whether its share of slow followers is far above the median of the others.

    Far: LEAST_SHARE, and _DEVIATIONS of the others' median absolute deviation. Alone it is not.
    """
    mine = units[unit]
    others = [other.share for name, other in units.items() if name != unit]
    if mine.slow < LEAST_SLOW or not others:
        return False
    middle = median(others)
    spread = max(median(abs(share - middle) for share in others), _LEAST_MAD)
    return mine.share - middle >= max(LEAST_SHARE, _DEVIATIONS * _MAD * spread)


def _counted(rows: Iterable[Row], unit: Callable[[Row], Any]) -> dict[Any, _Unit]:
    every: Counter[Any] = Counter()
    slow: Counter[Any] = Counter()
    for row in rows:
        every[unit(row)] += row["followers"]
        slow[unit(row)] += row["followers"] * row["slow"]
    return {name: _Unit(count, slow[name]) for name, count in every.items()}


def _words(where: str, unit: _Unit) -> str:
    return f"{where}: {unit.slow} of {unit.followers} replicas"
