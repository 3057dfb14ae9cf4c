"""One holder carries a run out; who follows it looks step by step."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.errors import ClusterError
from dashboard.purge import unsent
from dashboard.purge.carrying import carry_out, held
from dashboard.purge.replica_watch import ReplicaWatch
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.room import Room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    made.journal.close()


def carry(room: Room, run_id: str, *, read_only: bool = False) -> str:
    return carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=room.clock.sleep,
        read_only=lambda: "read_only is on" if read_only else None,
        standards=lambda _: room.standards,
    ).state  # fmt: skip


def test_the_second_holder_of_a_run_is_told_so(room: Room, tmp_path: Path) -> None:
    run_id = room.queue(room.plan())
    with held(room.journal, tmp_path, run_id, room.clock) as first:
        assert first
        with held(room.journal, tmp_path, run_id, room.clock) as second:
            assert not second
    with held(room.journal, tmp_path, run_id, room.clock) as again:
        assert again


def test_a_held_run_shows_a_sign_of_life(room: Room, tmp_path: Path) -> None:
    run_id = room.queue(room.plan())
    room.clock.sleep(60)
    with held(room.journal, tmp_path, run_id, room.clock):
        assert room.journal.head(run_id).heartbeat_at == room.clock()


def test_a_run_is_carried_out_once(room: Room) -> None:
    run_id = room.queue(room.plan())
    assert carry(room, run_id) == "done"
    assert carry(room, run_id) == "done"
    assert len(room.live.sent) == 1


def test_a_run_that_was_never_sent_does_not_begin_after_its_plan_expired(room: Room) -> None:
    run_id = room.queue(room.plan())
    room.clock.sleep(3600)
    assert carry(room, run_id) == "refused"
    assert room.live.sent == []
    view = room.journal.run(run_id)
    assert view.partitions[0].error == "PLAN_EXPIRED"
    assert view.to_json()["error"]["code"] == "PLAN_EXPIRED"
    assert [e.kind for e in room.journal.entries()] == ["queued", "refused", "run"]
    assert room.journal.verify().ok


def test_a_run_that_was_sent_goes_on_after_its_plan_expired(room: Room) -> None:
    run_id = room.queue(room.plan())
    (row,) = room.journal.partitions(run_id)
    leaving = replace(row, state="sent", attempts=1, sent_at=NOW, sent_leader_id=1)
    room.journal.record(run_id, "intent", [leaving], NOW)
    room.clock.sleep(3600)
    assert carry(room, run_id) == "done"


@pytest.mark.parametrize("where", ["settings", "journal"])
def test_either_switch_keeps_a_run_from_sending(room: Room, where: str) -> None:
    run_id = room.queue(room.plan())
    room.journal.set_read_only(where == "journal", "ann", room.clock())
    assert carry(room, run_id, read_only=where == "settings") == "cancelled"
    assert room.live.sent == []
    approver = "an approver switched every purge off, in the journal"
    (row,) = room.journal.partitions(run_id)
    assert row.error == "READ_ONLY"
    assert row.message == ("read_only is on" if where == "settings" else approver)


def test_each_step_says_when_to_look_again_until_the_receipt_is_final(room: Room) -> None:
    view = room.carry_out()
    watch = _watch(room, view.run.run_id)
    waits = []
    while (wait := watch.step()) is not None:
        waits.append(wait)
        room.clock.sleep(wait)
    assert waits[0] == 1.0, "soon after the run closed replicas arrive"
    assert waits[-1] == 5.0
    assert room.journal.head(view.run.run_id).receipt_final


def test_steps_go_on_while_nobody_answers(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    view = room.carry_out()
    watch = _watch(room, view.run.run_id)
    with monkeypatch.context() as outage:
        outage.setattr(room.live, "configs", _unreachable)
        for _ in range(100):
            assert watch.step() is not None
            room.clock.sleep(5)
        assert watch.silent
    assert watch.step() is not None
    assert not watch.silent


def _watch(room: Room, run_id: str) -> ReplicaWatch:
    run, plan = room.journal.head(run_id), room.journal.plan(run_id)
    return ReplicaWatch(room.live, room.journal, run, plan, room.clock, room.clock.sleep)


def _unreachable(*_: object) -> None:
    raise ClusterError("no broker answers", "Start it.")


@pytest.mark.parametrize(
    ("state", "sent", "after"),
    [
        ("pending", False, "not_done"),
        ("pending", True, "unknown"),  # read below once, and waiting to be sent again
        ("sent", True, "unknown"),
        ("unknown", True, "unknown"),
    ],
)
def test_of_a_run_that_reaches_nobody_any_more_only_what_never_left_is_not_done(
    room: Room, state: str, sent: bool, after: str
) -> None:
    run_id = room.queue(room.plan())
    row = room.journal.partitions(run_id)[0]
    if sent:
        row = replace(row, attempts=1, sent_at=NOW, sent_leader_id=1)
    room.journal.record(run_id, "read", [replace(row, state=state)], NOW)
    error = ClusterError("no broker answers", "wait")
    unsent.close(room.journal, room.journal.head(run_id), "unreached", error, NOW)
    assert room.journal.partitions(run_id)[0].state == after


def test_a_log_on_a_full_disk_changes_no_exit_code() -> None:
    program = "import sys; from dashboard.purge.carrying import say; say('é'); sys.exit(70)"
    # Images like to set it, and then Python keeps nothing back that it could fail to write later.
    environ = {name: word for name, word in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], check=False, stderr=full, env=environ
        )
    assert done.returncode == 70
    said = subprocess.run(
        [sys.executable, "-c", program], check=False, stderr=subprocess.PIPE, env=environ
    )
    assert said.stderr.decode() == "é\n"
