"""What Lowwater read itself is noted beside snapshots, and stands where these surely show it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import StoreError
from dashboard.store import own_reads
from dashboard.store.own_reads import Fetched, Ours, OwnRead, forget, kept, reading
from dashboard.store.snapshot_files import write_atomically
from dashboard.store.snapshots import ClusterStore, Store
from tests.unit.purge.facts_of import NOW

TOPIC = "orders"
SOME = {TOPIC: {1: 700}}


@pytest.fixture(params=["local", "url"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ClusterStore:
    local = request.param == "local"
    return ClusterStore(Store(str(tmp_path) if local else f"memory://{uuid.uuid4()}"), "c1")


def take(store: ClusterStore, count: int = 1) -> list[str]:
    """More snapshots, each a minute after the last."""
    made = []
    for _ in range(count):
        writer = store.begin("snapshots", NOW + timedelta(minutes=len(store.ids("snapshots"))))
        writer.commit(0.1, {})
        made.append(writer.id)
    return made


def placed(store: ClusterStore, taken: Mapping[str, datetime | None]) -> dict[str, Ours]:
    return kept(store).placed(taken)


def shown(store: ClusterStore, names: Sequence[str]) -> dict[str, Ours]:
    return placed(store, dict.fromkeys(names))


def read(store: ClusterStore, size: int = 700, meanwhile: int = 0) -> None:
    with reading(store, "run", pytest.fail) as took:
        took(TOPIC, 1, size // 2)
        take(store, meanwhile)
        took(TOPIC, 1, size - size // 2)


def notes(store: ClusterStore) -> list[str]:
    return [entry["name"] for entry in store.fs.ls(f"{store.path}/reads", detail=True)]


def test_bytes_stand_in_the_first_snapshot_that_was_surely_begun_after_they_had_come(
    store: ClusterStore,
) -> None:
    before = take(store, 2)
    read(store, meanwhile=2)
    unsure, sure, later = take(store, 3)
    found = shown(store, store.ids("snapshots"))
    nothing = Ours()
    assert [found[name] for name in before] == [nothing, nothing]
    assert [name for name, ours in found.items() if TOPIC in ours.going_on][-1] == unsure
    assert sum(TOPIC in ours.going_on for ours in found.values()) == 3
    assert found[sure] == Ours(SOME)
    assert found[later] == nothing


def test_as_long_as_no_such_snapshot_is_there_they_stand_nowhere(store: ClusterStore) -> None:
    (first,) = take(store)
    read(store)
    assert shown(store, [first]) == {first: Ours()}
    (unsure,) = take(store)
    assert shown(store, [first, unsure])[unsure] == Ours({}, frozenset({TOPIC}))


@pytest.mark.parametrize(
    ("chosen", "at"), [((0, 4), 4), ((0, 1, 4), 4), ((0, 3, 4), 3), ((3, 4), 3)]
)
def test_of_some_snapshots_the_first_one_behind_bears_them(
    store: ClusterStore, chosen: Sequence[int], at: int
) -> None:
    names = take(store)
    read(store, meanwhile=1)
    names += [store.ids("snapshots")[1], *take(store, 3)]
    found = shown(store, [names[n] for n in chosen])
    assert {name for name, ours in found.items() if ours.fetched} == {names[at]}
    assert TOPIC not in found[names[0 if 0 in chosen else 3]].going_on


def test_what_a_killed_reader_had_noted_counts(store: ClusterStore) -> None:
    take(store)
    (first,) = store.ids("snapshots")
    store.write_record("reads/killed.json", OwnRead(first, first, (Fetched(TOPIC, 1, 700),)))
    unsure, sure = take(store, 2)
    found = shown(store, store.ids("snapshots"))
    assert found[unsure].going_on == {TOPIC}
    assert found[sure] == Ours(SOME)


def test_two_readings_at_once_add_up(store: ClusterStore) -> None:
    take(store)
    with reading(store, "other", pytest.fail) as took:
        read(store)
        took(TOPIC, 1, 1)
        took(TOPIC, 2, 5)
    _, sure = take(store, 2)
    assert shown(store, store.ids("snapshots"))[sure].fetched == {TOPIC: {1: 701, 2: 5}}


def test_a_note_that_is_damaged_takes_nothing_off(store: ClusterStore) -> None:
    take(store)
    read(store)
    (name,) = notes(store)
    write_atomically(store.fs, name, b"{")
    take(store, 2)
    assert shown(store, store.ids("snapshots")) == {}


def test_a_store_that_cannot_be_written_is_told_and_stops_nobody(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(store)
    said: list[str] = []

    def full(*_: object) -> None:
        raise StoreError("no space left", "Free some.")

    monkeypatch.setattr(store, "write_record", full)
    with reading(store, "run", said.append) as took:
        took(TOPIC, 1, 5)
    assert len(said) == 2
    assert "no space left" in said[0]


def test_a_store_that_cannot_be_listed_for_a_moment_moves_no_bytes_to_an_earlier_snapshot(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(store, 3)
    with monkeypatch.context() as patch, reading(store, "run", pytest.fail) as took:
        took(TOPIC, 1, 700)

        def gone(_kind: str) -> str:
            raise StoreError("no answer", "Wait.")

        patch.setattr(store, "latest", gone)
    _, sure = take(store, 2)
    found = shown(store, store.ids("snapshots"))
    assert [name for name, ours in found.items() if ours.fetched] == [sure]


def test_a_cluster_of_which_nothing_is_collected_gets_no_folder(store: ClusterStore) -> None:
    read(store)
    assert store.store.clusters() == []
    assert not store.fs.exists(store.path)


def test_long_reading_is_noted_all_along(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_reads, "_NOTED_EACH_SECONDS", 0.01)
    (first,) = take(store)
    with reading(store, "run", pytest.fail) as took:
        took(TOPIC, 1, 700)
        during = take(store)
        found: dict[str, Ours] = {}
        for _ in range(1000):
            found = shown(store, [first, *during])
            if found[during[0]].going_on:
                break
        assert found[during[0]].going_on == {TOPIC}


def test_notes_go_with_the_last_snapshot_that_was_older(store: ClusterStore) -> None:
    names = take(store, 2)
    read(store)
    later = take(store, 2)
    forget(store)
    assert len(notes(store)) == 1
    for name in names:
        store.fs.rm(f"{store.path}/snapshots/{name}", recursive=True)
    forget(store)
    assert shown(store, later) == {}


@pytest.mark.parametrize(("minutes", "is_sure"), [(1, False), (3, True)])
def test_a_snapshot_that_was_begun_minutes_behind_the_end_shows_all_of_it(
    store: ClusterStore, minutes: int, is_sure: bool
) -> None:
    """Else a policy that archives after each collect would leave out every one of them."""
    take(store)
    with reading(store, "run", pytest.fail, lambda: NOW) as took:
        took(TOPIC, 1, 700)
    (behind,) = take(store)
    found = placed(store, {behind: NOW + timedelta(minutes=minutes)})
    assert found[behind] == (Ours(SOME) if is_sure else Ours({}, frozenset({TOPIC})))
    assert shown(store, [behind])[behind].going_on, "its clock is not proved"


def test_a_note_that_no_release_wrote_counts_for_nothing(store: ClusterStore) -> None:
    names = take(store, 3)
    some = (Fetched(TOPIC, 1, 700),)
    odd = (OwnRead("~", "~", some), OwnRead("", "~", some), OwnRead(names[0], "~", some))
    less = OwnRead(names[0], names[0], (Fetched(TOPIC, 1, -700),))
    for number, note in enumerate((*odd, less)):
        store.write_record(f"reads/{number}.json", note)
    assert shown(store, names) == {}
