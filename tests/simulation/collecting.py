"""Snapshots that were taken before a story, or were not, and the group that came and went since."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random

from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build
from tests.simulation.world import BEGAN, World

_FORGOTTEN_AFTER = 7 * 24  # hours: offsets.retention.minutes of Kafka's own


def snapshots_in(folder: Path, rng: Random, world: World) -> ClusterStore:
    """The data folder of a host whose collector was dead for a while, or saw no complete list."""
    store = ClusterStore(Store(str(folder / "data")), "cluster-1")
    hours_ago = rng.choice((1, 200, 400))
    _taken(store, world, hours_ago)
    if rng.random() < 0.7:
        for since in (3, 2, 1):
            _taken(store, world, min(since, hours_ago) / 2, "no DESCRIBE on the cluster")
    world.say(f"the newest snapshot that lists all groups is {hours_ago} h old")
    if hours_ago > _FORGOTTEN_AFTER:
        for key, part in sorted(world.parts.items()):
            world.forgotten[key] = rng.randint(0, part.high_watermark // 10)
        world.say(f"a group has come and gone since: {world.forgotten}")
    return store


def _taken(store: ClusterStore, world: World, hours_ago: float, *incomplete: str) -> None:
    writer = store.begin("snapshots", BEGAN - timedelta(hours=hours_ago))
    ids = {key.topic: part.topic_id for key, part in world.parts.items()}
    columns = {"topic_no": [*range(len(ids))], "topic": [*ids], "topic_id": [*ids.values()]}
    writer.write("topics", build(SNAPSHOT_TABLES["topics"], columns))
    writer.commit(0.0, {"groups_incomplete": incomplete})
