"""What was seen long ago is looked at again before anything is sent, and the intent tells when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dashboard.domain.model import TopicPartition
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.execute.carrying import carry_out
from dashboard.purge.execute.fresh import fresh_for
from dashboard.purge.journal.rows import RunView
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.room import Room


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path, partitions=3)
    yield made
    assert made.journal.verify().ok
    made.journal.close()


def kinds(room: Room) -> list[str]:
    return [entry.kind for entry in room.journal.entries()]


def errors(view: RunView) -> set[tuple[str, str | None]]:
    return {(row.state, row.error) for row in view.partitions}


def takes(room: Room, read: str, seconds: float) -> None:
    """Such a read takes so long from now on."""
    real = getattr(room.live, read)

    def slow(*given: Any, **named: Any) -> Any:
        room.clock.sleep(seconds)
        return real(*given, **named)

    setattr(room.live, read, slow)


def busy_before_the_intent(room: Room, seconds: float, meanwhile: Callable[[], object]) -> None:
    """Another process holds the journal's write lock for so long before the first intent."""
    wish, write = room.journal.wish, room.journal.file.write
    next_is_intent = [False, True]  # now; ever again

    def asked(run_id: str) -> str | None:
        next_is_intent[0] = True  # the last read before an intent
        return wish(run_id)

    @contextmanager
    def writing(*, by_anybody: bool = False) -> Iterator[Any]:
        if all(next_is_intent):
            next_is_intent[1] = False
            room.clock.sleep(seconds)
            meanwhile()
        with write(by_anybody=by_anybody) as db:
            yield db

    room.journal.wish = asked  # type: ignore[method-assign]
    room.journal.file.write = writing  # type: ignore[method-assign]


@pytest.mark.parametrize(("took", "counts"), [(0, 5), (2, 5), (4, 8), (14, 28), (20, 30), (60, 30)])
def test_a_look_counts_for_5_s_or_twice_what_it_took_and_never_more_than_30_s(
    took: float, counts: float
) -> None:
    assert fresh_for(timedelta(seconds=took)) == timedelta(seconds=counts)


@pytest.mark.further_but("groups-14", "replica_offsets-14")
@pytest.mark.parametrize("seconds", [6, 14, 28])
@pytest.mark.parametrize("read", ["groups", "replica_offsets"])
def test_a_look_that_takes_long_is_sent_by_all_the_same(
    room: Room, read: str, seconds: float
) -> None:
    plan = room.plan()
    takes(room, read, seconds)
    assert room.carry_out(plan, timeout_ms=60_000).run.state == "done"
    assert len(room.live.sent) == 2


def test_a_look_that_takes_too_long_sends_nothing_and_says_so(room: Room) -> None:
    plan = room.plan()
    takes(room, "groups", 31)
    view = room.carry_out(plan, timeout_ms=60_000)
    assert (view.run.state, errors(view)) == ("refused", {("not_done", "LAST_LOOK_OUTDATED")})
    assert view.partitions[0].message == (
        "31 s passed from the beginning of the last look at the cluster until a request could "
        "leave; after 30 s it no longer counts"
    )
    assert (room.live.sent, "intent" in kinds(room)) == ([], False)


def test_a_group_that_is_reset_while_the_journal_is_busy_is_seen(room: Room) -> None:
    run_id = room.queue(room.plan(), timeout_ms=60_000)
    busy_before_the_intent(room, 29, lambda: room.live.offsets_of.update(a={0: 0, 1: 60, 2: 60}))
    room.execution(run_id).execute()
    first, *rest = room.journal.partitions(run_id)
    assert (first.state, first.error, first.was_sent) == ("not_done", "unread-by-group", False)
    assert {r.state for r in rest} == {"done"}
    assert kinds(room)[3:6] == ["intent", "not-sent", "refused"]
    assert [sorted(k.partition for k in targets) for _, targets, _ in room.live.sent] == [[1, 2]]


def test_a_look_counts_no_longer_because_the_journal_was_busy_after_it(room: Room) -> None:
    """It was as good as a look that takes so long: for twice as long as the journal had waited."""
    run_id = room.queue(room.plan(), timeout_ms=60_000)
    honest = room.journal.write_baseline
    waits = [13.0]

    def busy(*given: Any) -> None:
        honest(*given)
        if waits:
            room.clock.sleep(waits.pop())
            room.live.offsets_of.update(a={0: 0, 1: 60, 2: 60})

    room.journal.write_baseline = busy  # type: ignore[method-assign]
    room.execution(run_id).execute()
    first, *rest = room.journal.partitions(run_id)
    assert (first.state, first.error, first.was_sent) == ("not_done", "unread-by-group", False)
    assert {r.state for r in rest} == {"done"}


def test_a_look_counts_no_longer_because_the_journal_was_busy_before_it(room: Room) -> None:
    """What the newest run rested on is read there, by a worker whose own heartbeat may wait."""
    run_id = room.queue(room.plan(), timeout_ms=60_000)
    execution = room.execution(run_id)
    honest, waits = execution.standards, [13.0]

    def busy() -> Standards:
        if waits:
            room.clock.sleep(waits.pop())
        return honest()

    def sign_in() -> None:
        room.clock.sleep(12)
        room.live.offsets_of.update(a={0: 0, 1: 60, 2: 60})

    execution.standards = busy
    room.live.on_connect = [sign_in]
    execution.execute()
    first, *rest = room.journal.partitions(run_id)
    assert (first.state, first.error, first.was_sent) == ("not_done", "unread-by-group", False)
    assert {r.state for r in rest} == {"done"}


def test_what_settings_and_store_say_is_read_behind_the_journal(room: Room) -> None:
    run_id = room.queue(room.plan(), timeout_ms=300_000)
    honest, waits = room.journal.rested_on, [45.0]

    def busy(*given: Any, **named: Any) -> Any:
        if waits:
            room.clock.sleep(waits.pop())
            room.standards = replace(room.standards, declarations={})
        return honest(*given, **named)

    room.journal.rested_on = busy  # type: ignore[method-assign]
    carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=room.clock.sleep,
        read_only=lambda: None, standards=lambda _: room.standards,
    )  # fmt: skip
    assert errors(room.journal.run(run_id)) == {("not_done", "readers-undeclared")}
    assert room.live.sent == []


def test_a_journal_that_is_busy_before_each_look_holds_nothing_up(room: Room) -> None:
    """It makes a look no older, as it makes none count for longer."""
    run_id = room.queue(room.plan(), timeout_ms=60_000)
    honest = room.journal.rested_on
    takes(room, "groups", 6)

    def busy(*given: Any, **named: Any) -> Any:
        room.clock.sleep(29)
        return honest(*given, **named)

    room.journal.rested_on = busy  # type: ignore[method-assign]
    state = carry_out(
        room.live, room.journal, run_id, now=room.clock, sleep=room.clock.sleep,
        read_only=lambda: None, standards=lambda _: room.standards,
    ).state  # fmt: skip
    assert state == "done"


def test_what_came_back_where_nothing_was_to_go_stays(room: Room) -> None:
    """Asked again until the run gives up: a leader that is cut off may show the old log, too."""
    part = room.live.parts[TopicPartition(TOPIC, 0)]
    part.starts.update(dict.fromkeys(part.starts, 60))
    plan = room.plan()
    assert plan.partitions[0].records == 0
    part.starts.update(dict.fromkeys(part.starts, 0))
    view = room.carry_out(plan, timeout_ms=2_000)
    first, *rest = view.partitions
    assert (first.state, first.error, first.was_sent) == ("not_done", "not-planned", False)
    assert {row.state for row in rest} == {"done"}
    assert TopicPartition(TOPIC, 0) not in {k for _, targets, _ in room.live.sent for k in targets}


def test_more_guards_than_can_be_told_refuse_and_end_no_worker(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = room.queue(room.plan())
    monkeypatch.setattr("dashboard.purge.plan.standing._MOST_GUARDS", -1)
    room.execution(run_id).execute()
    view = room.journal.run(run_id)
    assert (view.run.state, errors(view)) == ("refused", {("not_done", "TOO_MANY_GUARDS")})
    assert "more than a plan can tell" in str(view.partitions[0].message)
    assert view.run.error is not None and view.run.error["code"] == "TOO_MANY_GUARDS"
    assert "Plan fewer topics at once" in view.run.error["next"]
    assert room.live.sent == []


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes"),
        pa.ArrowInvalid("offset overflow while concatenating arrays"),
    ],
)
def test_guards_whose_texts_are_too_long_refuse_and_end_no_worker(
    room: Room, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run_id = room.queue(room.plan())

    def too_long(*_: Any) -> Any:
        raise error

    monkeypatch.setattr("dashboard.purge.plan.standing.guards.findings", too_long)
    room.execution(run_id).execute()
    view = room.journal.run(run_id)
    assert (view.run.state, errors(view)) == ("refused", {("not_done", "TOO_MANY_GUARDS")})
    assert room.live.sent == []


def test_a_group_that_is_reset_while_the_connection_is_made_is_seen(room: Room) -> None:
    """TLS and signing in may take as long as a broker is waited for."""
    run_id = room.queue(room.plan(), timeout_ms=60_000)

    def sign_in() -> None:
        room.clock.sleep(9)
        room.live.offsets_of.update(a={0: 0, 1: 60, 2: 60})

    room.live.on_connect = [sign_in]
    room.execution(run_id).execute()
    first, *rest = room.journal.partitions(run_id)
    assert (first.state, first.error, first.was_sent) == ("not_done", "unread-by-group", False)
    assert {r.state for r in rest} == {"done"}
    assert kinds(room)[3:6] == ["intent", "not-sent", "refused"]


def test_connections_that_always_take_too_long_send_nothing_and_say_so(room: Room) -> None:
    room.live.on_connect = [lambda: room.clock.sleep(6)] * 100
    view = room.carry_out()
    assert (view.run.state, errors(view)) == ("refused", {("not_done", "LAST_LOOK_OUTDATED")})
    assert room.live.sent == []


@pytest.mark.parametrize("stop", ["read-only", "cancel"])
def test_who_says_stop_while_the_connection_is_made_is_obeyed(room: Room, stop: str) -> None:
    run_id = room.queue(room.plan())

    def say() -> None:
        if stop == "cancel":
            room.journal.set_wish(run_id, "cancel", "ann", NOW)
        room.read_only = stop == "read-only"

    room.live.on_connect = [say]
    assert room.execution(run_id).execute() == "cancelled"
    assert room.live.sent == []


@pytest.mark.parametrize("stop", ["read-only", "cancel", "pause"])
def test_who_says_stop_while_the_journal_is_busy_is_obeyed(room: Room, stop: str) -> None:
    run_id = room.queue(room.plan())

    def meanwhile() -> None:
        room.read_only = stop == "read-only"
        if stop != "read-only":
            room.journal.set_wish(run_id, stop, "ann", room.clock.now)

    busy_before_the_intent(room, 1, meanwhile)
    execution, paused = room.execution(run_id), []

    def sleep(seconds: float) -> None:
        paused.append(len(room.live.sent))
        room.clock.sleep(seconds)
        if stop == "pause":
            room.journal.set_wish(run_id, None, "ann", room.clock.now)

    execution.sleep = sleep
    state = execution.execute()
    rows = room.journal.partitions(run_id)
    assert "not-sent" in kinds(room)
    if stop == "pause":
        assert (state, paused) == ("done", [0])
        assert {r.attempts for r in rows} == {1}
    else:
        error = "CANCELLED" if stop == "cancel" else "READ_ONLY"
        assert (state, {(r.state, r.error) for r in rows}) == ("cancelled", {("not_done", error)})
        assert room.live.sent == []


def test_a_worker_that_dies_between_intent_and_second_look_leaves_what_is_read_back(
    room: Room,
) -> None:
    run_id = room.queue(room.plan())
    execution, asked = room.execution(run_id), []

    def die(*_: object) -> bool:
        asked.append(room.journal.partitions(run_id)[0].state)
        if asked[-1] == "sent":
            raise KeyboardInterrupt
        return True

    execution._may_send = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        execution.execute()
    assert (asked[-1], room.live.sent) == ("sent", []), "durable before the second look"
    assert room.execution(run_id).execute() == "done"
    steps = kinds(room)
    assert "read" in steps[steps.index("intent") :]
    assert {r.attempts for r in room.journal.partitions(run_id)} == {1, 2}


def test_a_start_is_as_late_as_the_intent_and_not_as_the_wait_before_it(room: Room) -> None:
    run_id = room.queue(room.plan())
    busy_before_the_intent(room, 4, lambda: None)
    room.execution(run_id).execute()
    rows = room.journal.partitions(run_id)
    assert {row.sent_at for row in rows} == {NOW + timedelta(seconds=4)}
    assert {row.waited_seconds for row in rows} == {0.0}
    found = room.journal.file.rows("SELECT started_at FROM partition_starts")
    assert {row["started_at"] for row in found} == {"2026-03-01T12:00:04.000Z"}


def test_a_look_is_as_old_as_it_is_though_the_wall_clock_was_set_back(room: Room) -> None:
    """By the wall clock, which is set back meanwhile, it would count for five minutes more."""
    run_id = room.queue(room.plan(), timeout_ms=60_000)

    def sign_in() -> None:
        room.clock.sleep(9)
        room.clock.now -= timedelta(minutes=5)
        room.live.offsets_of.update(a={0: 0, 1: 60, 2: 60})

    room.live.on_connect = [sign_in]
    room.execution(run_id).execute()
    first, *rest = room.journal.partitions(run_id)
    assert (first.state, first.error, first.was_sent) == ("not_done", "unread-by-group", False)
    assert {r.state for r in rest} == {"done"}


def test_a_run_expires_though_the_wall_clock_was_set_back(room: Room) -> None:
    run_id = room.queue(room.plan())
    room.journal.set_wish(run_id, "pause", "ann", NOW)
    execution, slept = room.execution(run_id), []

    def sleep(_: float) -> None:
        slept.append(room.clock())
        room.clock.sleep(600)
        room.clock.now -= timedelta(minutes=10)
        assert len(slept) < 9

    execution.sleep = sleep
    assert execution.execute() == "refused"
    assert {row.error for row in room.journal.partitions(run_id)} == {"PLAN_EXPIRED"}
    assert len(slept) == 6, "an hour, by the clock that nobody sets"
