"""A run stops by itself: when too much fails, and when a replica leaves the ISR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.errors import ClusterError
from dashboard.domain.model import PartitionState, TopicPartition
from dashboard.purge.execute.stop_rules import ERROR_RATE, ISR_SHRANK, Stop, StopRules, outcome
from dashboard.purge.journal.rows import Options, PartitionRow, RunView
from tests.unit.purge.facts_of import KEY, NOW, TOPIC
from tests.unit.purge.room import Clock, Room

OPTIONS = Options(10_000, 2, 1, 0)
UNSENT: dict[str, Any] = {"sent_at": None, "answer_error_code": None}
SENT = PartitionRow(TOPIC, 0, 60, "sent", attempts=1, sent_at=NOW, answer_error_code=0)


def carry_out(folder: Path, partitions: int, answers: list[Any], **change: Any) -> RunView:
    room = Room(folder, partitions)
    room.live.answers = answers
    view = room.carry_out(**change)
    assert len(room.live.sent) == len({str(sent) for _, sent, _ in room.live.sent})  # none twice
    assert room.journal.verify().ok
    room.journal.close()
    return view


def stopped(view: RunView, code: str) -> int:
    return sum((r.state, r.error) == ("not_done", code) for r in view.partitions)


def test_a_run_whose_answers_are_errors_stops_and_says_why(tmp_path: Path) -> None:
    view = carry_out(tmp_path, 40, [44] * 20)
    assert (view.run.state, view.exit_code) == ("partial", 2)
    assert (stopped(view, "E44"), stopped(view, "STOPPED_ERROR_RATE")) == (20, 20)
    error = view.to_json()["error"]
    assert error["code"] == "STOPPED_ERROR_RATE"
    assert "stopped with 20 partitions left" in error["message"]
    assert "20 of 20 answered partitions failed, 20 of them with E44" in error["message"]


@pytest.mark.further_but("40-answers0-change0")
@pytest.mark.parametrize(
    ("partitions", "answers", "change"),
    [
        (40, [44] * 20, {"stop_at_error_share": 1.0}),
        (40, [0, 44] * 10, {}),  # half is not more than half
        (18, [44] * 9, {}),  # too few to judge
        (40, [7] * 20, {"mode": "leader-only-verified"}),  # its wanted answer
    ],
)
def test_a_run_below_its_limits_goes_on(
    tmp_path: Path, partitions: int, answers: list[Any], change: dict[str, Any]
) -> None:
    view = carry_out(tmp_path, partitions, answers, **change)
    assert stopped(view, "STOPPED_ERROR_RATE") == 0
    assert "error" not in view.to_json()


def test_time_outs_of_a_wait_all_count_and_what_was_sent_is_read(tmp_path: Path) -> None:
    view = carry_out(tmp_path, 40, [7] * 20)
    assert view.counts == {"leader_done": 20, "not_done": 20}
    assert stopped(view, "STOPPED_ERROR_RATE") == 20
    assert "E7" in view.to_json()["error"]["message"]


def test_after_a_stop_nothing_is_sent_again_either(tmp_path: Path) -> None:
    view = carry_out(tmp_path, 40, ["lost-before"] * 100)
    assert stopped(view, "ANSWER_LOST") == 20
    assert stopped(view, "STOPPED_ERROR_RATE") == 20


def test_the_next_worker_of_a_stopped_run_sends_nothing_more(tmp_path: Path) -> None:
    room = Room(tmp_path, 40)
    room.live.answers = [44] * 20
    run_id, record = room.queue(room.plan()), room.journal.record

    def die(run: str, kind: str, *rest: Any, **details: Any) -> None:
        if kind == "stopped":
            raise KeyboardInterrupt
        record(run, kind, *rest, **details)

    room.journal.record = die  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        room.execution(run_id).execute()
    room.journal.record = record  # type: ignore[method-assign]
    room.execution(run_id).execute()
    assert len(room.live.sent) == 10
    assert stopped(room.journal.run(run_id), "STOPPED_ERROR_RATE") == 20
    room.journal.close()


def leaving(room: Room, isr: tuple[int, ...], number: int = 0) -> Callable[[], None]:
    """What happens as a request leaves: time passes, and a partition has this ISR."""

    def leave() -> None:
        room.clock.sleep(2)
        room.live.parts[TopicPartition(TOPIC, number)].isr = isr

    return leave


def test_a_replica_that_leaves_the_isr_stops_the_run_and_its_broker_is_named(
    tmp_path: Path,
) -> None:
    room = Room(tmp_path, 6)
    room.live.on_send = [leaving(room, (1, 2), number=5)]
    view = room.carry_out()
    assert (view.run.state, len(room.live.sent)) == ("partial", 1)
    assert (view.counts["done"], stopped(view, "STOPPED_ISR_SHRANK")) == (2, 4)
    error = view.to_json()["error"]
    assert error["code"] == "STOPPED_ISR_SHRANK"
    assert "broker 3 left the in-sync replicas of orders-5" in error["message"]
    assert "stopped" in [e.kind for e in room.journal.entries(view.run.run_id)]
    room.journal.close()


@pytest.mark.parametrize("before", [True, False])
def test_it_goes_on_where_that_is_not_asked_for_or_was_so_at_first(
    tmp_path: Path, before: bool
) -> None:
    room = Room(tmp_path, 6)
    room.live.on_send = [leaving(room, (1, 2))]
    if before:
        room.live.parts[KEY].isr = (1, 2)
    view = room.carry_out(stop_on_isr_loss=before)
    assert (view.run.state, len(room.live.sent)) == ("done", 3)
    room.journal.close()


def test_a_partition_whose_leader_died_is_followed_to_its_end(tmp_path: Path) -> None:
    room = Room(tmp_path, 3)
    leave = leaving(room, (2, 3))
    room.live.on_send = [lambda: (room.live.elect(2), leave())]
    room.live.answers = ["lost-before"]
    view = room.carry_out()
    assert [r.state for r in view.partitions] == ["done", "done", "not_done"]
    assert stopped(view, "STOPPED_ISR_SHRANK") == 1
    room.journal.close()


@pytest.mark.parametrize(
    ("code", "attempts", "held"),
    [(ISR_SHRANK, 0, True), (ISR_SHRANK, 1, False), (ERROR_RATE, 0, True), (ERROR_RATE, 1, True)],
)
def test_what_a_stop_holds_back(code: str, attempts: int, held: bool) -> None:
    row = replace(SENT, state="pending", attempts=attempts)
    assert Stop(code, "why").holds(row) is held


def test_metadata_is_asked_for_about_once_a_second(tmp_path: Path) -> None:
    room = Room(tmp_path, 40)
    asked: list[int] = []
    topics = room.live.topics

    def counted(*names: Any) -> Any:
        asked.append(len(room.live.sent))
        return topics(*names)

    plan = room.plan()
    room.live.topics = counted  # type: ignore[method-assign]
    room.live.on_send = [lambda: room.clock.sleep(0.4)] * 5
    assert room.carry_out(plan, partitions_per_request=8).run.state == "done"
    assert [n for n in asked if 0 < n < 5] == [3]
    room.journal.close()


def test_metadata_that_cannot_be_read_stops_nothing() -> None:
    class Silent:
        def topics(self, _: Any) -> Any:
            raise ClusterError("no broker answers", "wait")

    clock = Clock()
    rules = StopRules(Silent(), OPTIONS, "wait-all", clock)  # type: ignore[arg-type]
    rules.placed({KEY: PartitionState(TOPIC, 0, 1, 3, (1, 2, 3), (1, 2, 3))})
    clock.sleep(2)
    assert rules.tripped() is None


@pytest.mark.parametrize(("replicas", "trips"), [((1, 2, 3), True), ((1, 2), False)])
def test_a_replica_that_was_reassigned_away_has_not_fallen_behind(
    replicas: tuple[int, ...], trips: bool
) -> None:
    rules = StopRules(None, OPTIONS, "wait-all", Clock())  # type: ignore[arg-type]
    rules.placed({KEY: PartitionState(TOPIC, 0, 1, 3, (1, 2, 3), (1, 2, 3))})
    rules.placed({KEY: PartitionState(TOPIC, 0, 1, 3, replicas, (1, 2))})
    assert (rules.tripped() is not None) is trips


@given(st.lists(st.sampled_from(["", "A", "B"]), max_size=60), st.floats(0, 1), st.integers(1, 30))
def test_the_share_of_failed_partitions_decides(
    found: list[str], share: float, at_least: int
) -> None:
    options = replace(OPTIONS, stop_at_error_share=share, stop_at_least_answered=at_least)
    rules = StopRules(None, options, "wait-all", Clock())  # type: ignore[arg-type]
    for outcomes in (reversed(found), found):  # what is seen last counts, and once
        rules.saw(
            replace(SENT, partition=n, state="not_done" if error else "done", error=error or None)
            for n, error in enumerate(outcomes)
        )
    bad = sum(map(bool, found))
    wanted = len(found) >= at_least and bad > 0 and bad / len(found) > share
    assert (rules.tripped() is not None) is wanted


@pytest.mark.parametrize(
    ("change", "mode", "found"),
    [
        ({}, "wait-all", ""),
        ({"answer_error_code": None}, "wait-all", None),
        ({**UNSENT, "state": "pending", "error": "BROKER_UNREACHABLE"}, "wait-all", None),
        ({"state": "pending", "error": "ANSWER_LOST"}, "wait-all", "ANSWER_LOST"),
        ({"state": "unknown", "answer_error_code": 7, "error": "E7"}, "wait-all", "E7"),
        ({"state": "unknown", "answer_error_code": 7, "error": "E7"}, "leader-only", None),
        ({"state": "leader_done", "error": "E7"}, "wait-all", "E7"),
        ({"state": "leader_done"}, "leader-only", ""),
        ({"state": "reverted", "error": "RECORDS_CAME_BACK"}, "wait-all", "RECORDS_CAME_BACK"),
        ({**UNSENT, "state": "not_done", "error": "unread-by-group"}, "wait-all", None),
        (
            {**UNSENT, "state": "not_done", "answer_error_code": 35, "error": "E35"},
            "leader-only",
            "E35",
        ),
    ],
)
def test_what_counts_as_failed(change: dict[str, Any], mode: str, found: str | None) -> None:
    assert outcome(replace(SENT, **change), mode) == found
