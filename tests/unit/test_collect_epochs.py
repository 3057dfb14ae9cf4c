"""Leader epochs that lost records reach the snapshot, and stay in it until they are whole again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dashboard.collect.collect import collect
from dashboard.core.errors import ClusterError
from dashboard.domain.model import (
    EpochEnd,
    GroupListing,
    GroupOffset,
    TopicPartition,
)
from dashboard.history.epoch_ends import ASKED_OF
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.fake_live import FakeLive

NOW = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
KEY = TopicPartition("orders", 0)


class Leading(FakeLive):
    """Partitions of epoch 4 that end at 90; billing committed 50 in `epoch`."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = 50
        self.epoch: int | None = 4
        self.ends: dict[int, int | None] = {}
        self.floor: int | None = None  # the epoch that answers; None: the one asked
        self.error: str | None = None
        self.ends_behind = {2: 7}
        self.asked: list[dict[TopicPartition, int]] = []

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        del topics, with_offsets
        billing = GroupOffset("billing", *KEY, self.offset, None, self.epoch)
        committed = (billing,) if self.epoch else ()
        return GroupListing((), committed)

    def lead(self, epoch: int = 4, end: int = 90) -> None:
        """Leaders are of this epoch, and their logs end there."""
        for part in self.parts.values():
            part.epoch, part.high_watermark = epoch, end

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        self.asked.append(dict(epochs))
        if self.error == "down":
            raise ClusterError("nobody answers", "wait", code="CLUSTER_UNREACHABLE")
        return {
            k: EpochEnd(
                *k, e if self.floor is None else min(self.floor, e), self.ends.get(e), self.error
            )
            for k, e in epochs.items()
        }


@pytest.fixture
def live() -> Iterator[Leading]:
    yield Leading()


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "fake")


def cut(
    live: Leading, store: ClusterStore, minute: int = 0
) -> list[tuple[int, int, int | None, bool]]:
    """Collect: epoch, what was known of it, its end, whether its leader knows it."""
    at = NOW + timedelta(minutes=minute)
    taken = collect(live, store, now=lambda: at, progress=lambda _: None)  # type: ignore[arg-type]
    found = store.read("snapshots", taken.snapshot_id, "epoch_ends").to_pylist()
    assert {row["partition"] for row in found} <= {0}
    return [
        (r["leader_epoch"], r["known_offset"], r["end_offset"], r["of_this_log"]) for r in found
    ]


@pytest.mark.parametrize("epoch", [4, None])
def test_nothing_is_asked_of_the_epoch_that_leads(
    live: Leading, store: ClusterStore, epoch: int | None
) -> None:
    live.epoch = epoch
    assert (cut(live, store), cut(live, store, 1), live.asked) == ([], [], [])


@pytest.mark.parametrize(
    ("end", "rows"),
    [(50, []), (20, [(3, 50, 20, True)]), (None, [(3, 50, 0, False)])],
)
def test_an_epoch_that_ends_below_a_commit_is_cut(
    live: Leading, store: ClusterStore, end: int | None, rows: list[object]
) -> None:
    live.epoch, live.ends = 3, {3: end}
    assert cut(live, store) == rows
    assert live.asked == [{KEY: 3}]


def test_what_is_cut_is_asked_again_until_its_records_are_back(
    live: Leading, store: ClusterStore
) -> None:
    """The group is gone by then: what is remembered of it is judged by this."""
    live.epoch, live.ends = 3, {3: 20}
    cut(live, store)
    live.epoch = None
    assert cut(live, store, 1) == [(3, 50, 20, True)]
    live.ends = {3: 60}
    assert cut(live, store, 2) == []


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "down"])
def test_what_cannot_be_asked_is_kept_for_the_next_snapshot(
    live: Leading, store: ClusterStore, error: str
) -> None:
    live.epoch, live.error = 3, error
    assert cut(live, store) == [(3, 50, None, True)]
    (said,) = [e for e in store.manifest("snapshots", store.latest_snapshot()).details["errors"]
               if e["part"] == "epochs"]  # fmt: skip
    assert said["object"] == "1 partitions"
    live.epoch, live.error, live.ends = None, None, {3: 30}
    assert cut(live, store, 1) == [(3, 50, 30, True)]


def test_what_a_leader_had_beyond_its_high_watermark_is_known_of_its_epoch(
    live: Leading, store: ClusterStore
) -> None:
    """A clean election keeps the high watermark, and loses bytes that were counted above it."""
    live.epoch, live.ends_behind = None, {1: -30, 2: -23}
    cut(live, store)
    assert cut(live, store, 1) == []
    assert live.asked == [], "followers lag, and nothing is lost"
    live.lead(5)
    live.ends = {4: 90}
    assert cut(live, store, 2) == [(4, 120, 90, True)] * 2, "of both topics"
    assert len(live.asked) == 1, "one epoch of a partition is one request"


def test_a_snapshot_says_of_which_one_it_asked_the_log_ends(
    live: Leading, store: ClusterStore
) -> None:
    def asked_of() -> object:
        return store.manifest("snapshots", store.latest_snapshot()).details[ASKED_OF]

    cut(live, store)
    first = store.latest_snapshot()
    assert asked_of() is None
    cut(live, store, 1)
    assert asked_of() == first
    live.failing["offsets"] = ClusterError("nobody answers", "wait", code="CLUSTER_UNREACHABLE")
    cut(live, store, 2)
    assert asked_of() is None, "nothing was asked"


def test_an_epoch_that_its_log_lacks_stays_foreign_until_it_is_there(
    live: Leading, store: ClusterStore
) -> None:
    live.epoch, live.floor, live.ends = 3, 2, {3: 80}
    assert cut(live, store) == [(3, 50, 0, False)]
    live.epoch, live.ends = None, {3: 50}  # as if it had been without a record
    assert cut(live, store, 1) == [(3, 50, 0, False)]
    live.floor = None
    assert cut(live, store, 2) == []


def test_the_epoch_that_answers_for_a_foreign_one_speaks_for_older_ones(
    live: Leading, store: ClusterStore
) -> None:
    live.epoch, live.floor, live.ends = 3, 2, {2: 20, 3: 20}
    assert cut(live, store) == [(2, 50, 20, True), (3, 50, 0, False)]
    live.epoch = None
    assert cut(live, store, 1) == [(2, 50, 20, True), (3, 50, 0, False)]


def test_an_epoch_without_a_record_is_not_cut(live: Leading, store: ClusterStore) -> None:
    live.epoch, live.floor, live.ends = 3, 2, {3: 50}
    assert cut(live, store) == []


def floors(store: ClusterStore) -> dict[int, int | None]:
    found = store.read("snapshots", store.latest_snapshot(), "epoch_ends").to_pylist()
    return {row["leader_epoch"]: row["floor_epoch"] for row in found}


def test_the_epoch_that_answers_for_a_foreign_one_is_kept(
    live: Leading, store: ClusterStore
) -> None:
    """Whatever its end: of all epochs between the two the log has nothing either."""
    live.epoch, live.floor, live.ends = 3, 1, {3: 80}
    cut(live, store)
    assert floors(store) == {3: 1}
    live.epoch, live.error = None, "NOT_LEADER_OR_FOLLOWER"
    cut(live, store, 1)
    assert floors(store) == {3: 1}
    live.error, live.ends = None, {3: None}
    cut(live, store, 2)
    assert floors(store) == {3: None}, "the leader knows no epoch as high"


def test_a_commit_past_the_end_is_asked_of_once_its_epoch_is_over(
    live: Leading, store: ClusterStore
) -> None:
    """The group is gone by then, and the log has grown past the commit."""
    live.offset = 95
    assert cut(live, store) == [(4, 95, None, True)]
    live.epoch = None
    live.lead(end=-1)
    assert cut(live, store, 1) == [(4, 95, None, True)], "its end was not read"
    live.lead()
    assert cut(live, store, 2) == [(4, 95, None, True)]
    assert live.asked == []
    live.lead(5, end=200)
    live.ends = {4: 90}
    assert cut(live, store, 3) == [(4, 95, 90, True)]


def test_a_log_that_grows_past_a_commit_in_its_epoch_is_believed(
    live: Leading, store: ClusterStore
) -> None:
    """Nobody can tell it there: plans believe it, too."""
    live.offset = 95
    cut(live, store)
    live.lead(end=100)
    assert cut(live, store, 1) == []
