"""The interval of an application, by the rhythm of its log starts in snapshots."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.policies.doctor import words
from dashboard.policies.doctor.diagnosis import Diagnosis, Rhythm, rhythms
from dashboard.policies.doctor.history import History, Owner, Owners
from dashboard.policies.doctor.pace import read_signs
from dashboard.policies.doctor.repartition import diagnose
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore
from tests.unit.policies import kept_history
from tests.unit.policies.streams_topics import END, STREAMS, TOPIC, Log, run

pytestmark = pytest.mark.further

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterStore:
    monkeypatch.setattr("os.fsync", lambda _: None)
    return kept_history.store(tmp_path)


def found(store: ClusterStore, log: Log, every: int, **given: object) -> Diagnosis:
    """After 45 snapshots, a minute apart, of an application that purges in each `every`-th."""

    def step(number: int) -> None:
        log.write(100)
        log.commits["app"] = log.end
        if number % every == 0:
            log.purge(log.end)

    run(store, [log], step, snapshots=45, every=MINUTE, **given)  # type: ignore[arg-type]
    (diagnosis,) = diagnose(store, None, Settings(), END)
    return diagnosis


def test_the_interval_is_told_where_snapshots_are_close(store: ClusterStore) -> None:
    one = found(store, Log(), 8)
    assert one.rhythm == Rhythm(
        "app", 5, 7.75 * MINUTE, 8.25 * MINUTE, 5.75 * MINUTE, 8.25 * MINUTE
    )
    assert words.rhythms([one, one]) == [
        "app purges every 465.0 to 495.0 s, so its repartition.purge.interval.ms is 345000 to "
        "495000"
    ]
    assert one.to_json()["rhythm"] == {
        "application": "app", "purges_at_least": 5, "every_low_ms": 465_000,
        "every_high_ms": 495_000, "interval_low_ms": 345_000, "interval_high_ms": 495_000,
    }  # fmt: skip
    assert one.evidence.others_at_least == one.evidence.purges_at_least == 5
    assert words.seen_said(one.evidence).endswith("; 5 purges at least, 5 of them not ours")


@pytest.mark.further
def test_purges_between_all_snapshots_tell_an_upper_bound_alone(store: ClusterStore) -> None:
    one = found(store, Log(), 1)
    assert one.rhythm is not None
    assert (one.rhythm.interval_low, one.rhythm.interval_high) == (None, 44 * MINUTE / 43)
    assert "so its repartition.purge.interval.ms is 61395 or less" in words.rhythms([one])[0]


@pytest.mark.further
def test_pauses_without_commits_leave_an_upper_bound(store: ClusterStore) -> None:
    log = Log()

    def step(number: int) -> None:
        if number % 8 == 0:
            log.write(100)
            log.commits["app"] = log.end
            log.purge(log.end)

    run(store, [log], step, snapshots=45, every=MINUTE)
    (one,) = diagnose(store, None, Settings(), END)
    assert one.rhythm == Rhythm("app", 5, None, 8.25 * MINUTE, None, 8.25 * MINUTE)


@pytest.mark.further
def test_a_retention_moves_log_starts_too_and_hides_it(store: ClusterStore) -> None:
    one = found(store, Log(), 8, configs={**STREAMS, "retention.ms": "3600000"})
    assert (one.rhythm, one.evidence.others_at_least) == (None, None)
    assert one.to_json()["rhythm"] is None


@pytest.mark.further
def test_three_moves_are_no_rhythm_yet(store: ClusterStore) -> None:
    assert found(store, Log(), 14).rhythm is None


@given(
    interval=st.floats(1, 100),
    commits=st.floats(0.05, 0.75),
    threads=st.integers(1, 3),
    seed=st.integers(0, 2**32),
)
def test_streams_own_interval_lies_between_the_bounds(
    interval: float, commits: float, threads: int, seed: int
) -> None:
    """Whatever the commits' pace, below that of the snapshots: one a second, each a bit late."""
    history = played(interval, commits, threads, np.random.default_rng(seed))
    told = rhythms(history, read_signs(history, [], timedelta(0)), ()).get(TOPIC)
    if told is None:
        assert interval + commits > 100 / 5
        return
    assert told.interval_high >= interval * SECOND
    if told.interval_low is not None:
        assert told.interval_low <= interval * SECOND
        assert interval > 2, "a setting near the snapshots' distance cannot be told from below"


def played(interval: float, commits: float, threads: int, random: np.random.Generator) -> History:
    """100 s of an application as Kafka's threads do it: each purges at its first commit after the
    interval, measured from the last purge.
    """
    count = 101
    taken = np.arange(count) + random.uniform(0, 0.2, count)
    start, committed = np.zeros((2, threads, count), dtype=np.int64)
    for row in range(threads):
        at = random.uniform(0, commits) + commits * np.arange(int(102 / commits))
        purged, last = [], -random.uniform(0, interval)
        for moment in at.tolist():
            if moment - last > interval:
                purged.append(moment)
                last = moment
        made = np.searchsorted(at, taken, side="right")  # commits by each snapshot
        committed[row] = made
        of_purge = np.searchsorted(at, np.array(purged), side="right")
        seen = np.searchsorted(np.array(purged), taken, side="right")
        start[row] = np.concatenate(([0], of_purge))[seen]
    unknown = np.full((threads, count), -1)
    owner = Owner("app", "Stable", 1, None)
    return History(
        times=tuple(END + float(second) * SECOND for second in taken.tolist()),
        topics={TOPIC: slice(0, threads)}, partition=np.arange(threads), leader=unknown,
        log_start=start, log_end=committed, leader_bytes=unknown, total_bytes=unknown[:, 0],
        committed=committed, configs={TOPIC: STREAMS}, left_out=(),
        owners=Owners({TOPIC: owner}, frozenset(), frozenset(), ()),
    )  # fmt: skip
