"""What the settings and the store of the simulated host say: declarations, and kept snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.domain.model import TopicPartition
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.plan.claims import RememberedOffset
from dashboard.purge.plan.facts import PlanFacts
from dashboard.purge.plan.resolve import History, Keeping, LogEnd
from dashboard.settings.settings import PurgeSettings, TopicDeclaration
from dashboard.store.snapshots import ClusterStore
from tests.simulation.world import BEGAN, World

# Snapshots of the model show no topic's age: its groups read by name.
_PURGE = PurgeSettings(most_partitions=100, pattern_refresh=timedelta(0))


@dataclass(frozen=True, kw_only=True)
class OfModel(Standards):
    """The readers of each topic are declared, with the replay window of this world."""

    world: World

    @classmethod
    def of(
        cls,
        world: World,
        topics: Iterable[str],
        remembered: Sequence[RememberedOffset],
        store: ClusterStore | None,
    ) -> OfModel:
        window = timedelta(seconds=world.window)
        declared = {
            name: TopicDeclaration(
                name, "team", "groups", window, "ann", "2026-01-01", state_restore="none"
            )
            for name in topics
        }
        return cls(
            declared, _PURGE, store, remembered=remembered, met=world.met, world=world
        )  # what snapshots meet later, too

    def history(self, facts: PlanFacts) -> History:
        return History(keeping=self._keeping, ends_before=lambda times: self._ends(facts, times))

    def _keeping(self, sizes: Mapping[TopicPartition, int]) -> dict[TopicPartition, Keeping]:
        """By curves of a snapshot that saw leaders' own log ends; every record is a byte."""
        return {
            key: Keeping(end - sizes[key] if end > sizes[key] else None, LogEnd(end, epoch))
            for key, (end, epoch) in self.world.measured.items()
            if key in sizes
        }

    def _ends(
        self, facts: PlanFacts, times: Mapping[TopicPartition, datetime]
    ) -> dict[TopicPartition, LogEnd]:
        """Where logs ended in the newest snapshot that is old enough by its own host's clock."""
        world = self.world
        found = {}
        for key, at in times.items():
            since = (at - BEGAN).total_seconds() + world.host_ahead
            ends = [ends for taken, ends in world.ends if taken <= since]
            end = ends[-1].get(key) if ends else None
            now = facts.partitions[key].high_watermark
            if end is not None and now is not None and end <= now:
                found[key] = LogEnd(end)
        return found
