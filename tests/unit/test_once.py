"""A kept snapshot never changes, so a process that looks again and again reads it once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import StoreError
from dashboard.history.once import Once
from dashboard.purge.evidence import memory
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.collected import taken

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Reads:
    """Tells each snapshot's name as often as it is told to, and what was read."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.fails = False

    def __call__(self, store: ClusterStore, snapshot: str, times: int) -> Sequence[str]:
        self.read.append(f"{store.cluster_id} {snapshot} {times}")
        if self.fails:
            raise StoreError("torn", "Put it back.")
        return [snapshot] * times


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "c1")


def test_what_was_read_is_not_read_again_of_the_same_store(
    store: ClusterStore, tmp_path: Path
) -> None:
    reads = Reads()
    once = Once(reads, most=100)
    assert [once(store, "s1", 2), once(store, "s1", 2)] == [["s1", "s1"]] * 2
    assert once(ClusterStore(Store(str(tmp_path)), "c1"), "s1", 2) == ["s1", "s1"]
    assert reads.read == ["c1 s1 2"]
    once(store, "s1", 3)
    once(ClusterStore(Store(str(tmp_path)), "c2"), "s1", 2)
    assert reads.read == ["c1 s1 2", "c1 s1 3", "c2 s1 2"]


def test_what_could_not_be_read_is_tried_again(store: ClusterStore) -> None:
    reads = Reads()
    once = Once(reads, most=100)
    reads.fails = True
    with pytest.raises(StoreError):
        once(store, "s1", 1)
    reads.fails = False
    assert once(store, "s1", 1) == ["s1"]


def test_the_answers_that_were_asked_for_longest_ago_go_first(store: ClusterStore) -> None:
    reads = Reads()
    once = Once(reads, most=8)  # an answer of three counts as four
    for name in ("s1", "s2", "s1", "s3", "s1", "s2"):
        assert once(store, name, 3) == [name] * 3
    assert reads.read == ["c1 s1 3", "c1 s2 3", "c1 s3 3", "c1 s2 3"]


def test_a_look_reads_of_snapshots_only_those_that_came_since(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    whole = ClusterStore.read_files

    def counted(*args: object, **rest: object) -> object:
        read.append(args[2].id)  # type: ignore[attr-defined]
        return whole(*args, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ClusterStore, "read_files", counted)
    first = taken(store, NOW, "orders")

    def look() -> set[str]:
        read.clear()
        memory.remembered(store, ["orders"])
        memory.streams(store)
        memory.met(store, ["orders"])
        return {*read}

    assert look() == {first}
    assert look() == set()
    second = taken(store, NOW + timedelta(minutes=1), "orders")
    assert look() == {second}
