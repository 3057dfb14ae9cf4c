"""One holder carries a run out; who follows it looks step by step."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dashboard.core.errors import ClusterError, RefusedError
from dashboard.domain.model import TopicPartition, TopicState
from dashboard.purge.execute import carrying, stop_rules
from dashboard.purge.execute.carrying import carry_out, held
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Options
from dashboard.purge.receipt.replica_watch import ReplicaWatch
from tests.unit.purge.facts_of import KEY, NOW, TOPIC
from tests.unit.purge.room import Room


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


def test_a_lock_that_went_with_its_run_is_held_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opened it before and takes it after its holder removed it has the lock of nothing."""
    took = carrying.take

    def after_its_end(number: int) -> bool:
        carrying.forget_lock(tmp_path, "r")
        return took(number)

    with carrying.run_lock(tmp_path, "r") as first:
        assert first
        carrying.forget_lock(tmp_path, "r")
    assert list((tmp_path / "locks").iterdir()) == []
    with monkeypatch.context() as patched:
        patched.setattr(carrying, "take", after_its_end)
        with carrying.run_lock(tmp_path, "r") as second:
            assert not second
    with carrying.run_lock(tmp_path, "r") as third:
        assert third


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


def begun(room: Room) -> str:
    """A run of which one request may have left when its worker died."""
    run_id = room.queue(room.plan())
    row, *_ = room.journal.partitions(run_id)
    leaving = replace(row, state="sent", attempts=1, sent_at=NOW, sent_leader_id=1)
    room.journal.record(run_id, "intent", [leaving], NOW)
    return run_id


@pytest.mark.parametrize("arrived", [True, False])
def test_of_a_run_that_was_sent_nothing_more_is_after_it_expired(
    tmp_path: Path, arrived: bool
) -> None:
    room = Room(tmp_path, partitions=2)
    run_id = begun(room)
    if arrived:
        room.live.parts[TopicPartition(TOPIC, 0)].starts = {1: 60, 2: 60, 3: 60}
    room.clock.sleep(30 * 24 * 3600)  # a journal that was restored a month later
    assert carry(room, run_id) == "partial"
    assert room.live.sent == []
    first, second = room.journal.partitions(run_id)
    assert (first.state, first.error) == (
        ("done", None) if arrived else ("not_done", "PLAN_EXPIRED")
    )
    assert (second.state, second.error) == ("not_done", "PLAN_EXPIRED")
    error = room.journal.run(run_id).to_json()["error"]
    assert error["code"] == "PLAN_EXPIRED"
    assert f"{2 - arrived} partitions" in error["message"]
    assert room.journal.verify().ok
    room.journal.close()


def test_what_expires_while_others_are_sent_is_not_sent_any_more(tmp_path: Path) -> None:
    room = Room(tmp_path, partitions=3)
    run_id = room.queue(room.plan(), partitions_per_request=1, unsent_for_ms=2000)
    room.live.on_send = [lambda: room.clock.sleep(1), lambda: room.clock.sleep(1)]
    assert carry(room, run_id) == "partial"
    rows = room.journal.partitions(run_id)
    assert [(r.state, r.error) for r in rows] == [
        ("done", None), ("done", None), ("not_done", "PLAN_EXPIRED"),
    ]  # fmt: skip
    assert len(room.live.sent) == 2
    room.journal.close()


def test_a_pause_does_not_stop_the_time_that_a_run_has(room: Room) -> None:
    plan = room.plan()
    run_id = room.queue(plan)
    room.journal.set_wish(run_id, "pause", "ann", NOW)
    began = room.clock.now = plan.expires_at - timedelta(minutes=5)
    assert carry(room, run_id) == "refused"
    assert room.clock() - began == timedelta(minutes=5)
    assert room.journal.head(run_id).error["code"] == "PLAN_EXPIRED"  # type: ignore[index]
    assert room.live.sent == []


def test_a_plan_that_expires_while_its_run_waits_for_the_cluster_is_not_sent(room: Room) -> None:
    plan = room.plan()
    room.clock.now = plan.expires_at - timedelta(seconds=2)
    run_id = room.journal.insert(
        plan, token="late", mode="wait-all", who="ann", from_where="h", typed=plan.confirmation,
        options=Options(60_000, 2, 1, 3_600_000), connection={}, now=room.clock(),
    )[0]  # fmt: skip
    part = room.live.parts[KEY]
    part.isr = (1, 2)

    def sleep(seconds: float) -> None:
        room.clock.sleep(seconds)
        if room.clock() >= plan.expires_at + timedelta(seconds=20):
            part.isr = (1, 2, 3)

    run = carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=sleep, read_only=lambda: None,
        standards=lambda _: room.standards, steady=room.clock.steady,
    )  # fmt: skip
    assert (run.state, room.live.sent) == ("refused", [])
    assert run.error is not None and run.error["code"] == "PLAN_EXPIRED"


def late(room: Room, **options: Any) -> tuple[str, datetime]:
    """A run that is queued two seconds before its plan expires, and when that is."""
    plan = room.plan()
    room.clock.now = plan.expires_at - timedelta(seconds=2)
    run_id, _ = room.journal.insert(
        plan, token="late", mode="wait-all", who="ann", from_where="h", typed=plan.confirmation,
        options=Options(60_000, 2, 1, 3_600_000, **options), connection={}, now=room.clock(),
    )  # fmt: skip
    return run_id, plan.expires_at


@pytest.mark.parametrize("canary", [True, False])
def test_a_plan_that_expires_between_a_canary_and_the_rest_is_asked_again(
    tmp_path: Path, canary: bool
) -> None:
    """A run that has begun goes on; by its canary alone it has not."""
    room = Room(tmp_path, partitions=5)
    run_id, expires_at = late(room, canary=canary)
    room.live.on_send = [lambda: room.clock.sleep(3)]
    assert carry(room, run_id) == ("partial" if canary else "done")
    assert room.clock() > expires_at
    first, *rest = room.journal.partitions(run_id)
    assert (first.state, len(room.live.sent)) == ("done", 1 if canary else 3)
    expected = ("not_done", "PLAN_EXPIRED") if canary else ("done", None)
    assert {(row.state, row.error) for row in rest} == {expected}
    if canary:
        assert room.journal.run(run_id).to_json()["error"]["code"] == "PLAN_EXPIRED"
    room.journal.close()


def test_a_run_that_was_called_off_after_its_intent_has_not_begun(room: Room) -> None:
    """It was paused while its connection was made, and resumed after its plan had expired."""
    run_id, expires_at = late(room)

    def pause() -> None:
        room.journal.set_wish(run_id, "pause", "ann", room.clock())

    def sleep(seconds: float) -> None:
        room.clock.sleep(seconds)
        if room.clock() > expires_at and room.journal.wish(run_id) == "pause":
            room.journal.set_wish(run_id, None, "ann", room.clock())

    room.live.on_connect.append(pause)
    run = carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=sleep, read_only=lambda: None,
        standards=lambda _: room.standards, steady=room.clock.steady,
    )  # fmt: skip
    kinds = [e.kind for e in room.journal.entries()]
    assert ("intent" in kinds, "not-sent" in kinds) == (True, True)
    assert (run.state, room.live.sent) == ("refused", [])
    assert run.error is not None and run.error["code"] == "PLAN_EXPIRED"


def test_a_canary_is_read_to_its_end_where_its_plan_expired_with_its_worker(
    tmp_path: Path,
) -> None:
    room = Room(tmp_path, partitions=2)
    run_id, expires_at = late(room, canary=True)
    first, _ = room.journal.partitions(run_id)
    leaving = replace(first, state="sent", attempts=1, sent_at=room.clock(), sent_leader_id=1)
    room.journal.record(run_id, "intent", [leaving], room.clock())
    room.live.parts[first.key].starts = {1: 60, 2: 60, 3: 60}
    room.clock.now = expires_at + timedelta(seconds=1)
    assert carry(room, run_id) == "partial"
    assert room.live.sent == []
    assert [(r.state, r.error) for r in room.journal.partitions(run_id)] == [
        ("done", None), ("not_done", "PLAN_EXPIRED"),
    ]  # fmt: skip
    room.journal.close()


def test_a_cancel_is_heard_while_the_stop_rules_read_the_cluster(room: Room) -> None:
    run_id = room.queue(room.plan(), timeout_ms=30_000)
    read = room.live.topics

    def hangs(names: Iterable[str] | None) -> dict[str, TopicState]:
        room.live.topics = read  # type: ignore[method-assign]
        room.journal.set_wish(run_id, "cancel", "bob", room.clock())
        room.clock.sleep(2.8)
        return read(names)

    def connect() -> None:
        room.clock.sleep(1.2)  # so that the rules look again
        room.live.topics = hangs  # type: ignore[method-assign]

    room.live.on_connect.append(connect)
    assert room.execution(run_id).execute() == "cancelled"
    assert room.live.sent == []


def test_after_long_silence_a_person_resumes(room: Room, tmp_path: Path) -> None:
    run_id, slept = begun(room), []
    room.clock.sleep(601)

    def sleep(seconds: float) -> None:
        run = room.journal.head(run_id)
        slept.append((run.state, run.error and run.error["code"], len(room.live.sent)))
        room.clock.sleep(seconds)
        if len(slept) == 100:
            room.journal.set_wish(run_id, None, "ann", room.clock())

    with held(room.journal, tmp_path, run_id, room.clock):
        run = carry_out(
            room.live, room.journal, run_id, now=room.clock, sleep=sleep, read_only=lambda: None,
            standards=lambda _: room.standards,
        )  # fmt: skip
    assert set(slept[:100]) == {("paused", "WORKER_SILENT", 0)}
    assert (run.state, run.error) == ("done", None)
    assert room.journal.verify().ok


@pytest.mark.parametrize("minutes", [11, -11], ids=["later", "clock-set-back"])
def test_silence_is_told_by_whoever_takes_the_run_up_first(room: Room, minutes: int) -> None:
    run_id = begun(room)
    at = room.clock() + timedelta(minutes=minutes)
    assert room.journal.claim(room.journal.head(run_id), at)
    run = room.journal.head(run_id)
    assert (run.state, run.wish, run.heartbeat_at) == ("paused", "pause", at)
    assert run.error is not None
    assert run.error["code"] == "WORKER_SILENT"
    assert f"lowwater run {run_id} --resume" in run.error["next"]
    assert room.journal.entries()[-1].body == {"state": "paused", "error": run.error}


def test_a_worker_whose_machine_stood_still_sends_nothing_before_it_beats(room: Room) -> None:
    run_id = room.queue(room.plan())
    execution, states = room.execution(run_id), []
    look = execution._look

    def frozen(*given: Any, **more: Any) -> Any:
        found = look(*given, **more)
        if not states:
            room.clock.sleep(601)
        return found

    def sleep(seconds: float) -> None:
        states.append((room.journal.head(run_id).state, len(room.live.sent)))
        room.clock.sleep(seconds)
        room.journal.set_wish(run_id, "cancel", "ann", room.clock())

    execution._look = frozen  # type: ignore[method-assign]
    execution.sleep = sleep
    assert execution.execute() == "cancelled"
    assert states[-1] == ("paused", 0)


@pytest.mark.parametrize("wish", ["pause", None])
def test_a_cancel_is_final(room: Room, wish: str | None) -> None:
    run_id = room.queue(room.plan())
    room.journal.set_wish(run_id, "cancel", "ann", NOW)
    with pytest.raises(RefusedError) as refused:
        room.journal.set_wish(run_id, wish, "bob", NOW)
    assert refused.value.code == "RUN_CANCELLED"
    room.journal.set_wish(run_id, "cancel", "bob", NOW)
    assert carry(room, run_id) == "cancelled"
    assert room.live.sent == []
    with pytest.raises(RefusedError) as late:
        room.journal.set_wish(run_id, wish, "bob", NOW)
    assert late.value.code == "RUN_CLOSED"


def test_of_a_cancel_and_many_who_resume_the_cancel_stays(room: Room) -> None:
    run_id = room.queue(room.plan())
    room.journal.set_wish(run_id, "pause", "ann", NOW)
    path, outcomes = room.journal.file.path, []

    def wish(wanted: str | None) -> None:
        own = Journal(path)
        with suppress(RefusedError):
            own.set_wish(run_id, wanted, "ann", NOW)
            outcomes.append(wanted)
        own.close()

    threads = [Thread(target=wish, args=(w,)) for w in [None, "pause", "cancel", None, "pause"] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "cancel" in outcomes
    assert room.journal.wish(run_id) == "cancel"
    said = [e.body["wish"] for e in room.journal.entries() if e.kind == "wish"]
    assert set(said[said.index("cancel") :]) == {"cancel"}


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
    stop_rules.close(room.journal, room.journal.head(run_id), "unreached", error, NOW)
    assert room.journal.partitions(run_id)[0].state == after


@pytest.mark.further
def test_a_log_on_a_full_disk_changes_no_exit_code() -> None:
    program = "import sys; from dashboard.purge.execute.carrying import say; say('é'); sys.exit(70)"
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
