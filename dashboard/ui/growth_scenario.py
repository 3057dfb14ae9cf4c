"""A what-if of the page Growth: what is asked, and its effect on every log dir. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.curve_tables import ReplicaCurves, integers
from dashboard.curves import Flags
from dashboard.ui import growth_effects as effects
from dashboard.ui.growth_backlog import backlog
from dashboard.ui.growth_effects import Effect
from dashboard.ui.growth_expired import expired, not_told
from dashboard.ui.growth_facts import Disk, Parts
from dashboard.ui.what_if import freed

# Facts of the committed target without these groups, now and in an earlier analysis; hours between.
Facts = Callable[[tuple[str, ...]], pa.Table]
Earlier = Callable[[tuple[str, ...]], tuple[pa.Table | None, float]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`keep` for the topics `kept`, groups `waived` for one purge, a policy on `purged` topics."""

    keep: timedelta | None = None
    kept: frozenset[str] = frozenset()
    waived: tuple[str, ...] = ()
    purged: frozenset[str] = frozenset()

    @property
    def asks(self) -> bool:
        return bool((self.keep and self.kept) or self.waived or self.purged)


@dataclass(frozen=True)
class Known:
    """All that a what-if reads. `retention_ms` by topic (below 0: for ever); `segments` of the
    snapshot, None without inventory; `taken_at` is the snapshot's.
    """

    disks: list[Disk]
    parts: Parts
    curves: ReplicaCurves
    facts: Facts
    earlier: Earlier
    retention_ms: Mapping[str, int]
    segments: pa.Table | None
    taken_at: datetime


def effect_of(known: Known, asked: Scenario) -> Effect:
    """Everything that is asked, at once."""
    purged = _purged(known, asked)
    if not asked.keep or not asked.kept:
        return purged
    return effects.together(_kept(known, asked, asked.keep), purged)


def _kept(known: Known, asked: Scenario, keep: timedelta) -> Effect:
    parts = known.parts
    today = np.array([_hours(known.retention_ms.get(name)) for name in parts.names])[parts.topic]
    old = not_told(parts)
    if known.segments is not None:
        before = known.taken_at - keep
        old = expired(known.segments, parts, known.disks, asked.kept, before)
    hours = keep / timedelta(hours=1)
    return effects.retention(parts, _of_topics(parts, asked.kept), hours, today, old)


def _hours(retention_ms: int | None) -> float:
    """Today's retention; one that is not known is taken to be longer."""
    return np.inf if retention_ms is None or retention_ms < 0 else retention_ms / 3_600_000


def _purged(known: Known, asked: Scenario) -> Effect:
    parts = known.parts
    if not asked.waived and not asked.purged:
        return effects.nothing(parts)
    facts = known.facts(asked.waived)
    chosen = pc.is_in(facts["topic"], value_set=pa.array(sorted(asked.purged), pa.string()))
    consumed = _flags(facts["consumed"])
    going = _flags(chosen) | _moved(known.facts(()), facts)
    once = effects.purged(parts, freed(facts, known.curves, going & consumed))
    if not asked.purged:
        return once
    before, hours = known.earlier(asked.waived)
    left = backlog(parts, facts, before, hours)
    return effects.again_and_again(parts, once, _of_topics(parts, asked.purged), left)


def _moved(today: pa.Table, facts: pa.Table) -> Flags:
    """Where a waiver lets the target go on; both tables have the same rows."""
    was, now = (integers(table["target_offset"], -1) for table in (today, facts))
    return np.asarray(now > was)


def _of_topics(parts: Parts, topics: frozenset[str]) -> Flags:
    chosen = np.array([name in topics for name in parts.names], dtype=bool)
    return np.asarray(chosen[parts.topic]) if len(chosen) else np.zeros(0, dtype=bool)


def _flags(column: pa.ChunkedArray) -> Flags:
    return np.asarray(pc.fill_null(column, False).to_numpy(), dtype=bool)
