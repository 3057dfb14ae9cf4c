"""How old findings are, and whether they tell of now."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from dashboard.history.findings_age import age_of
from dashboard.history.pruning import prune
from dashboard.store import attempts
from tests.unit.policies.examples import NOON
from tests.unit.policies.kept_history import store

MINUTE = timedelta(minutes=1)


def test_findings_are_as_old_as_their_snapshot_says_where_its_id_follows_one_of_a_time_to_come(
    tmp_path: Path,
) -> None:
    cluster = store(tmp_path)
    days = timedelta(days=400)
    wrong = cluster.begin("snapshots", NOON - 2 * MINUTE + days)
    wrong.commit(0.1, {"clock_ahead_seconds": days.total_seconds()})
    right = cluster.begin("snapshots", NOON - MINUTE)
    right.commit(0.1, {"clock_ahead_seconds": 0.0})
    for of in (wrong, right):
        cluster.begin("findings", NOON).commit(0.1, {"snapshot_id": of.id})
    first, second = (cluster.manifest("findings", i) for i in cluster.ids("findings"))

    assert "ahead of this host's clock" in age_of(cluster, first, NOON, MINUTE).unusable
    told = age_of(cluster, second, NOON, MINUTE)
    assert (told.taken_at, told.unusable) == (NOON - MINUTE, "")

    prune(cluster, "snapshots", lambda _: (), NOON)
    assert age_of(cluster, second, NOON, MINUTE).unusable, "its id alone is left"


def test_findings_of_a_slow_watch_are_given_its_time(tmp_path: Path) -> None:
    """`watch --every 10m` beside settings that say nothing of how often."""
    cluster = store(tmp_path)
    taken = cluster.begin("snapshots", NOON - 20 * MINUTE)
    taken.commit(0.1, {})
    cluster.begin("findings", NOON).commit(0.1, {"snapshot_id": taken.id})
    analysis = cluster.manifest("findings", cluster.ids("findings")[0])
    assert "more than 3 x 60 s ago" in age_of(cluster, analysis, NOON, MINUTE).unusable
    for every, unusable in ((10 * MINUTE, ""), (timedelta(seconds=5), "3 x 60 s"),
                            (6 * MINUTE, "3 x 360 s")):  # fmt: skip
        with attempts.attempt(cluster, lambda: NOON, print, every):
            pass
        found = age_of(cluster, analysis, NOON, MINUTE).unusable
        assert unusable in found and bool(unusable) == bool(found)
    attempts.left(cluster, NOON, print)
    assert "3 x 60 s" in age_of(cluster, analysis, NOON, MINUTE).unusable, "nobody collects now"
