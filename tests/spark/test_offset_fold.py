"""Offsets folded by arrays on one machine, and by Spark's statement on clusters: the same holds."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from analytics import holds
from analytics.tables import Tables
from dashboard.pruning import prune
from tests.spark.conftest import START, Lab, Snapshot

pytestmark = pytest.mark.spark

SNAPSHOTS = 9
_KEY = ["topic", "partition", "group_id"]


def _random(step: int, dice: random.Random) -> Snapshot:
    """Topics hidden, deleted or recreated; groups that come, go, stand still or go back."""
    found = Snapshot()
    for number in dice.sample(range(8), 6):
        anew = number % 3 == 0 and step > SNAPSHOTS // 2
        chosen = dice.sample(["a", "b", "é" * 120, "d"], dice.randint(0, 4))
        found.topic(
            f"t{number}",
            topic_id=f"{number}{'new' if anew else ''}",
            groups={group: dice.choice([-1, 5, 5, 7, 1 << 60]) for group in chosen},
        )
    for row in found.tables["group_offsets"]:
        row["leader_epoch"] = dice.choice([None, 0, step])
    if step % 4 == 1:
        for row in found.tables["topics"]:
            row["topic_id"] = None  # a broker that tells none
    return found


@pytest.mark.parametrize("from_base", [False, True])
def test_arrays_and_the_statement_fold_many_snapshots_alike(lab: Lab, from_base: bool) -> None:
    dice = random.Random(7)
    ids = []
    for step in range(SNAPSHOTS):
        ids.append(lab.write(_random(step, dice)))
        if step == 2 and from_base:
            lab.analyze()
            # What only it remembers, of topics that are gone too: dropped or kept alike.
            prune(lab.cluster, "snapshots", lambda _: {ids[2]}, START + timedelta(hours=1))
    cluster = lab.cluster
    base = cluster.manifest("findings", cluster.latest_analysis()) if from_base else None
    snapshot = cluster.manifest("snapshots", ids[-1])
    present = cluster.read("snapshots", ids[-1], "topics")
    by_arrays, by_spark = (
        holds.fold(Tables(lab.spark, cluster), snapshot, present, base, one_machine=own)
        for own in (True, False)
    )
    assert by_arrays.num_rows > 10
    assert by_arrays["last_commit_at"].null_count not in (0, by_arrays.num_rows)
    assert by_arrays.sort_by([(name, "ascending") for name in _KEY]).to_pylist() == (
        by_spark.sort_by([(name, "ascending") for name in _KEY]).to_pylist()
    )
