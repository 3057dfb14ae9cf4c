"""Receipts of many runs are followed by one thread, which leaves the cluster in peace."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import ClusterError, LowwaterError
from dashboard.policies.service.following import Following
from dashboard.purge.execute.carrying import held
from dashboard.purge.receipt.receipt import Checkpoints
from dashboard.purge.receipt.replica_watch import ReplicaWatch
from tests.unit.policies.service_room import ServiceRoom, Streams

TOPICS = tuple(f"app{n}-sum-repartition" for n in range(3))


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ServiceRoom]:
    made = ServiceRoom(tmp_path)
    for topic in TOPICS:
        made.live.topic(topic)
        made.live.produce(topic, 10)
        made.live.commit(topic.split("-")[0], topic)
    made.service().turn()
    yield made
    made.journal.close()


def following(room: ServiceRoom, errors: list[LowwaterError]) -> Following:
    made = Following(
        room.journal, lambda: room.live, room.clock, room.clock.sleep, errors.append, room.folder,
        Checkpoints(room.store, room.clock), room.clock.steady,
    )  # fmt: skip
    for run in room.runs():
        made.add(run.run_id)
    return made


def test_each_run_is_followed_to_its_final_receipt(room: ServiceRoom) -> None:
    errors: list[LowwaterError] = []
    found = following(room, errors)
    while found.runs:
        room.clock.sleep(max(0.05, found.turn()))
    assert len(room.runs()) == 3
    assert all(run.receipt_final for run in room.runs())
    assert errors == []


@pytest.mark.further
def test_looks_take_a_fifth_of_the_time(room: ServiceRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    found = following(room, [])
    whole = Streams.log_dirs

    def slow(*args: object) -> object:
        room.clock.sleep(2)
        return whole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Streams, "log_dirs", slow)
    began = room.clock()
    rest = found.turn()
    took = (room.clock() - began).total_seconds()
    assert took > 0
    assert rest == 4 * took


def test_a_clock_that_jumps_amid_a_look_is_no_rest(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that slept for eight hours is followed on at once, not after 32 more."""
    found, whole = following(room, []), Streams.log_dirs

    def slept(*args: object) -> object:
        room.clock.now += timedelta(hours=8)
        return whole(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Streams, "log_dirs", slept)
    assert found.turn() == 0


def test_a_clock_that_stepped_back_starves_no_run(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, seen = following(room, []), []
    step = ReplicaWatch.step

    def noted(watch: ReplicaWatch) -> float | None:
        seen.append(watch.run.run_id)
        return step(watch)

    for _ in range(3):
        found.turn()
    room.clock.now -= timedelta(hours=1)
    monkeypatch.setattr(ReplicaWatch, "step", noted)
    for _ in range(3):
        found.turn()
    assert len(set(seen)) == 3


def test_a_run_whose_time_passed_unseen_has_its_last_look(room: ServiceRoom) -> None:
    """Records came back while the machine slept: nobody else would find out."""
    found = following(room, [])
    room.clock.sleep(timedelta(days=1).total_seconds())
    for part in room.live.parts.values():
        part.starts = dict.fromkeys(part.starts, 0)
    while found.runs:
        room.clock.sleep(max(0.05, found.turn()))
    rows = [row for run in room.runs() for row in room.journal.partitions(run.run_id)]
    assert {row.state for row in rows} == {"reverted"}


def test_a_run_that_is_followed_to_its_end_leaves_no_lock(room: ServiceRoom) -> None:
    locks = room.folder / "locks"
    found = following(room, [])
    found.turn()
    assert len(list(locks.iterdir())) == 3
    while found.runs:
        room.clock.sleep(max(0.05, found.turn()))
    assert list(locks.iterdir()) == []


@pytest.mark.further
def test_an_outage_is_told_and_followed_through(room: ServiceRoom) -> None:
    errors: list[LowwaterError] = []
    found = following(room, errors)

    def gone() -> Streams:
        raise ClusterError("no broker answers", "Start it.")

    found.live = gone
    for _ in range(50):
        room.clock.sleep(max(0.5, found.turn()))
    assert {error.code for error in errors} == {"CLUSTER_UNREACHABLE"}
    assert len(found.runs) == 3
    found.live = lambda: room.live
    while found.runs:
        room.clock.sleep(max(0.05, found.turn()))
    assert all(run.receipt_final for run in room.runs())


@pytest.mark.further
def test_a_run_that_cannot_be_followed_holds_no_other_up(
    room: ServiceRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[LowwaterError] = []
    found, broken, whole = following(room, errors), room.runs()[0].run_id, ReplicaWatch.step

    def step(watch: ReplicaWatch) -> float | None:
        if watch.run.run_id == broken:
            raise KeyError("a bug")
        return whole(watch)

    monkeypatch.setattr(ReplicaWatch, "step", step)
    while found.runs != (broken,):
        room.clock.sleep(max(0.05, found.turn()))
    assert [run.receipt_final for run in room.runs()] == [False, True, True]
    assert {error.message for error in errors} == {"unexpected KeyError: 'a bug'"}


def test_a_clock_that_stepped_back_holds_no_look_up(room: ServiceRoom) -> None:
    found = following(room, [])
    for _ in range(3):
        found.turn()
    room.clock.sleep(-3600)
    assert found.turn() == 0, "it looked at once"


@pytest.mark.further
def test_what_a_worker_follows_is_left_to_it_and_gone_on_from_where_it_left_it(
    room: ServiceRoom,
) -> None:
    """`run --wait --receipt` starts one while no service leads: one final receipt all the same."""
    found = following(room, [])
    run_id = room.runs()[0].run_id
    found.look(run_id)
    with held(room.journal, room.folder, run_id, room.clock) as first:
        assert first
        seen = room.journal.newest_entry()
        found.look(run_id)
        assert room.journal.newest_entry() == seen
        run, plan = room.journal.head(run_id), room.journal.plan(run_id)
        ReplicaWatch(room.live, room.journal, run, plan, room.clock, room.clock.sleep).watch()
    while found.runs:
        room.clock.sleep(max(0.05, found.turn()))
    kinds = [entry.kind for entry in room.journal.entries(run_id)]
    assert kinds.count("receipt") == 1
