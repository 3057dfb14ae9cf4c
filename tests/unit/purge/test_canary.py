"""A canary goes first and alone; the rest follows only when it is good, whoever carries it out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.purge.facts_of import KEY
from tests.unit.purge.room import Room


@pytest.mark.parametrize(("answer", "left"), [(0, 0), (44, 4)])
def test_a_canary_that_fails_keeps_the_rest_back(tmp_path: Path, answer: int, left: int) -> None:
    room = Room(tmp_path, partitions=5)
    room.live.answers = [answer]
    view = room.carry_out(canary=True)
    assert len(room.live.sent[0][1]) == 1
    assert sum(r.error == "CANARY_FAILED" for r in view.partitions) == left
    assert view.run.state == ("done" if answer == 0 else "partial")
    room.journal.close()


def dies_after(room: Room, run_id: str, kind: str) -> None:
    """A worker carries the run out until such an entry is in the journal, and no further."""
    with pytest.MonkeyPatch.context() as patch:
        record = room.journal.record

        def fatal(run: str, what: str, *rest: Any, **details: Any) -> None:
            record(run, what, *rest, **details)
            if what == kind:
                raise KeyboardInterrupt

        patch.setattr(room.journal, "record", fatal)
        with pytest.raises(KeyboardInterrupt):
            room.execution(run_id).execute()
    assert len(room.live.sent) == 1


@pytest.mark.parametrize(
    ("answer", "died_after", "canary"),
    [
        (44, "answer", "not_done"),
        (7, "answer", "leader_done"),
        (7, "read", "leader_done"),
        ("lost", "no-answer", "leader_done"),
        (0, "answer", "done"),
        (0, "read", "done"),
    ],
)
def test_a_canary_is_judged_by_the_worker_that_follows_a_dead_one(
    tmp_path: Path, answer: int | str, died_after: str, canary: str
) -> None:
    room = Room(tmp_path, partitions=5)
    run_id = room.queue(room.plan(), canary=True)
    room.live.answers = [answer]
    dies_after(room, run_id, died_after)
    room.execution(run_id).execute()
    first, *rest = room.journal.partitions(run_id)
    assert first.state == canary
    if canary == "done":
        assert {r.state for r in rest} == {"done"}
        assert len(room.live.sent) == 3
    else:
        assert {(r.state, r.error) for r in rest} == {("not_done", "CANARY_FAILED")}
        assert len(room.live.sent) == 1
    room.journal.close()


class _Died(BaseException):
    """A worker's end that nothing catches."""


def _dies() -> None:
    raise _Died


@pytest.mark.parametrize("what", ["died before sending", "lost before the leader", "leader moved"])
def test_a_canary_of_which_nothing_took_effect_goes_again_alone(tmp_path: Path, what: str) -> None:
    room = Room(tmp_path, partitions=5)
    run_id = room.queue(room.plan(), canary=True)
    if what == "died before sending":
        room.live.on_connect = [_dies]
        with pytest.raises(_Died):
            room.execution(run_id).execute()
    elif what == "lost before the leader":
        room.live.answers = ["lost-before"]
        dies_after(room, run_id, "no-answer")
    else:
        room.live.on_send = [lambda: room.live.elect(2)]
        room.live.answers = ["lost-before"]
    assert room.execution(run_id).execute() == "done"
    before = 0 if what == "died before sending" else 1
    assert [len(targets) for _, targets, _ in room.live.sent] == [1] * before + [1, 2, 2]
    assert {r.state for r in room.journal.partitions(run_id)} == {"done"}
    room.journal.close()


def test_a_canary_that_never_takes_effect_is_named_by_how_it_ended(tmp_path: Path) -> None:
    room = Room(tmp_path, partitions=3)
    room.live.answers = ["lost-before"] * 9
    first, *rest = room.carry_out(canary=True).partitions
    assert (first.state, first.error) == ("not_done", "ANSWER_LOST")
    assert {(r.error, r.message) for r in rest} == {
        ("CANARY_FAILED", "the canary orders-0 ended not_done: ANSWER_LOST")
    }
    assert {tuple(targets) for _, targets, _ in room.live.sent} == {(KEY,)}
    room.journal.close()


def test_a_canary_whose_leader_is_gone_before_it_goes_again_is_not_called_pending(
    tmp_path: Path,
) -> None:
    room = Room(tmp_path, partitions=3)
    run_id = room.queue(room.plan(), canary=True)
    room.live.on_connect = [_dies]
    with pytest.raises(_Died):
        room.execution(run_id).execute()
    execution = room.execution(run_id)

    def sleep(seconds: float) -> None:  # read below the target, then no leader is left
        for part in room.live.parts.values():
            part.leader_id = None
        room.clock.sleep(seconds)

    execution.sleep = sleep
    assert execution.execute() == "partial"
    said = [(r.state, r.message or "") for r in room.journal.partitions(run_id)]
    assert said[0][0] == "unknown"
    assert not any("pending" in message for _, message in said), said
    assert not room.live.sent
    room.journal.close()


def test_in_a_leader_mode_a_canary_at_its_leader_is_good_after_a_death_too(tmp_path: Path) -> None:
    room = Room(tmp_path, partitions=5)
    run_id = room.queue(room.plan(), canary=True, mode="leader-only-verified")
    room.live.answers = [7]
    dies_after(room, run_id, "read")
    assert room.execution(run_id).execute() == "done"
    room.journal.close()


@pytest.mark.parametrize("back", [True, False])
def test_a_canary_that_cannot_be_read_keeps_the_rest_waiting(tmp_path: Path, back: bool) -> None:
    room = Room(tmp_path, partitions=5)
    run_id = room.queue(room.plan(), canary=True)
    room.live.answers = ["lost"]
    dies_after(room, run_id, "no-answer")
    part = room.live.parts[KEY]
    part.leader_id, part.starts = None, {1: 60, 2: 60, 3: 60}  # carried out, says nobody
    execution, held = room.execution(run_id), []

    def sleep(seconds: float) -> None:
        held.append(len(room.live.sent))
        room.clock.sleep(seconds)
        part.leader_id = 1 if back and len(held) == 10 else part.leader_id

    execution.sleep = sleep
    execution.execute()
    first, *rest = room.journal.partitions(run_id)
    assert set(held) == {1}, "nothing is sent while the canary is in doubt"
    if back:
        assert {r.state for r in (first, *rest)} == {"done"}
    else:
        assert first.state == "unknown"
        assert {(r.state, r.error) for r in rest} == {("not_done", "CANARY_FAILED")}
        assert "ended unknown" in str(rest[0].message)
    room.journal.close()


def test_a_canary_whose_leader_speaks_no_leader_only_keeps_the_rest_back(tmp_path: Path) -> None:
    room = Room(tmp_path, partitions=3)
    room.live.leader_only_brokers = set()
    first, *rest = room.carry_out(canary=True, mode="leader-only").partitions
    assert (first.state, first.error) == ("not_done", "UNSUPPORTED_VERSION")
    assert [r.error for r in rest] == ["CANARY_FAILED", "CANARY_FAILED"]
    assert sum(e.kind == "intent" for e in room.journal.entries()) == 1
    room.journal.close()
