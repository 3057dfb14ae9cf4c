"""How many seconds a follower is behind, from where the leader's log ended in kept snapshots."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from dashboard.domain.model import TopicPartition
from dashboard.purge.forecast.reading import leader_ends, seconds_behind
from tests.support import sample_store
from tests.unit.purge.facts_of import NOW

KEY = TopicPartition("orders", 0)


def at(seconds: float, offset: int) -> tuple:  # type: ignore[type-arg]
    return NOW - timedelta(seconds=seconds), offset


def test_the_lag_is_read_off_a_straight_line_between_points() -> None:
    points = [at(0, 1000), at(60, 400), at(120, 100)]

    assert seconds_behind(points, 700) == 30
    assert seconds_behind(points, 400) == 60
    assert seconds_behind(points, 250) == 90


def test_an_idle_hour_is_no_lag() -> None:
    points = [at(0, 1000), at(10, 400), at(3600, 400)]

    assert seconds_behind(points, 400) == 10


def test_older_than_what_is_kept_is_unknown() -> None:
    assert seconds_behind([at(0, 1000), at(60, 400)], 399) is None
    assert seconds_behind([at(0, 1000)], 10) is None
    assert seconds_behind([], 10) is None


def test_at_the_log_end_nothing_is_behind() -> None:
    assert seconds_behind([at(0, 1000), at(60, 400)], 1000) == 0


def test_ends_come_from_snapshots_newest_first_until_one_lies_before_the_follower(
    tmp_path: Path,
) -> None:
    for minutes in (2, 1, 0):
        store = sample_store.write(tmp_path, "no-analysis", now=NOW - timedelta(minutes=minutes))
    snapshots = store.ids("snapshots")
    assert len(snapshots) == 3
    ids = {
        row["topic"]: row["topic_id"]
        for row in store.read("snapshots", snapshots[-1], "topics").to_pylist()
    }
    newest = leader_ends(store, {KEY: 10**12}, ids)
    every = leader_ends(store, {KEY: -1}, ids)

    assert [len(newest[KEY]), len(every[KEY])] == [1, 3]
    assert every[KEY][0][0] > every[KEY][-1][0]
    assert newest[KEY][0][1] > 0


def test_a_topic_made_anew_has_no_history(tmp_path: Path) -> None:
    store = sample_store.write(tmp_path, "no-analysis")

    assert leader_ends(store, {KEY: 5}, {"orders": "another id"}) == {}
