"""Predicted waits against what happened: kept with the run, summed over all runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.domain.model import LogDirsAnswer, ReplicaSize, TopicPartition
from dashboard.purge.execute.recheck import recheck
from dashboard.purge.forecast import waits as wait_outcomes
from dashboard.purge.forecast.waits import WaitErrors, expected
from dashboard.purge.journal.pack import unpack
from dashboard.purge.journal.rows import PartitionRow, WaitForecast
from dashboard.purge.plan.guards import Override
from dashboard.purge.receipt import receipt_bytes
from dashboard.purge.receipt.model import Receipt, RequestWait
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.outcomes import receipt, run
from tests.unit.purge.room import Room

QUICK = WaitForecast("keeps-up", 0.0, 0.333, 0.75)
HANGS = WaitForecast("silent", 10.0, 10.0, 10.25)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path, 3)
    yield made
    assert made.journal.verify().ok
    made.journal.close()


def row(number: int, waited: float | None, **change: Any) -> PartitionRow:
    sent = PartitionRow(
        TOPIC, number, 60, "done", attempts=1, sent_leader_id=1, sent_at=NOW,
        wait_forecast=QUICK, waited_seconds=waited, answer_error_code=0,
    )  # fmt: skip
    return replace(sent, **change)


def with_waits(waits: list[RequestWait]) -> Receipt:
    return replace(receipt(), waits=tuple(waits))


def answering_after(room: Room, seconds: float) -> None:
    """Each answer takes so long, on the room's clock."""
    send = room.live.delete_records

    def late(*words: Any, **how: Any) -> Any:
        answer = send(*words, **how)
        room.clock.sleep(seconds)
        return answer

    room.live.delete_records = late  # type: ignore[method-assign]


def test_partitions_of_one_request_are_one_answer_and_the_slowest_tells_when() -> None:
    later = NOW + timedelta(seconds=1)
    rows = [
        row(0, 0.2),
        row(1, 0.2),
        row(2, 10.1, wait_forecast=HANGS, sent_at=later, answer_error_code=7),
        row(3, 0.9, sent_leader_id=2),
    ]
    found = wait_outcomes.requests(rows)
    assert [(x.leader_id, x.partitions, x.cause, x.inside) for x in found] == [
        (1, 2, "keeps-up", True),
        (2, 1, "keeps-up", False),
        (1, 1, "silent", True),
    ]
    assert [x.timed_out for x in found] == [False, False, True]
    assert wait_outcomes.errors_of(found) == WaitErrors(
        requests=3,
        inside=2,
        coverage=2 / 3,
        median_error_seconds=0.133,
        worst_error_seconds=0.567,
    )
    assert wait_outcomes.said(found) == (
        "the slowest of 3 requests took 10 s; predicted 10 s to 10 s, about 10 s: 2 of 3 inside; "
        "1 request timed out"
    )


def test_an_answer_before_the_interval_is_outside_too() -> None:
    (early,) = wait_outcomes.requests([row(0, 4.0, wait_forecast=HANGS)])
    (last,) = wait_outcomes.requests([row(0, 10.25, wait_forecast=HANGS)])
    assert (early.inside, last.inside) == (False, True)
    assert wait_outcomes.errors_of([early]).worst_error_seconds == -6.0


def test_what_was_sent_twice_lost_or_never_predicted_is_left_out() -> None:
    rows = [row(0, 0.2, attempts=2), row(1, None), row(2, 0.2, wait_forecast=None)]
    assert wait_outcomes.requests(rows) == []
    assert wait_outcomes.said([]) is None
    assert wait_outcomes.calibration([run("1", receipt()), run("2", None)]) == []


def test_calibration_sums_the_requests_of_all_purges_by_what_was_seen_before() -> None:
    one = wait_outcomes.requests([row(0, 0.2), row(1, 0.5, sent_leader_id=2)])
    two = wait_outcomes.requests([row(0, 2.0), row(1, 10.0, wait_forecast=HANGS, sent_leader_id=3)])
    runs = [run("1", with_waits(one)), run("2", with_waits(two))]
    quick, hangs = wait_outcomes.calibration(runs)
    assert (quick.cause, quick.purges) == ("keeps-up", 2)
    assert (quick.errors.requests, quick.errors.inside) == (3, 2)
    assert quick.errors.worst_error_seconds == 1.667
    assert hangs.to_json() == {
        "cause": "silent", "purges": 1, "requests": 1, "inside": 1, "coverage": 1.0,
        "median_error_seconds": 0.0, "worst_error_seconds": 0.0,
    }  # fmt: skip


def test_a_run_keeps_its_forecast_and_what_came_of_it(room: Room) -> None:
    answering_after(room, 0.4)
    view = room.watch(room.carry_out())
    (first, second) = (view.run.receipt or Receipt()).waits  # two requests: two and one partitions
    assert (first.cause, first.likely_seconds, first.high_seconds) == ("keeps-up", 0.333, 0.75)
    assert (first.partitions, second.partitions) == (2, 1)
    assert (first.waited_seconds, first.inside) == (0.4, True)
    body = view.to_json()["partitions"][0]
    assert body["wait_forecast"]["cause"] == "keeps-up"
    assert body["waited_seconds"] == 0.4


@pytest.mark.further
def test_an_answer_after_the_interval_is_an_error_that_is_kept(room: Room) -> None:
    answering_after(room, 3.0)
    view = room.watch(room.carry_out())
    told = wait_outcomes.errors_of((view.run.receipt or Receipt()).waits)
    assert (told.inside, told.median_error_seconds) == (0, 2.667)


def test_a_replica_that_gave_no_answer_is_expected_to_run_into_the_timeout(room: Room) -> None:
    offsets = room.live.replica_offsets

    def one_hangs(partitions: Any, brokers: Any = None) -> Any:
        rows = offsets(partitions, brokers)
        return tuple(
            replace(r, log_start_offset=None, log_end_offset=None, error="ANSWER_LOST")
            if (r.broker_id, r.partition) == (3, 1) else r
            for r in rows
        )  # fmt: skip

    room.live.replica_offsets = one_hangs  # type: ignore[method-assign]
    room.live.answers = [0, 7]
    view = room.carry_out()
    forecasts = {p.partition: p.wait_forecast for p in view.partitions}
    assert {n: f.cause for n, f in forecasts.items() if f} == {
        0: "keeps-up", 1: "silent", 2: "keeps-up",
    }  # fmt: skip
    assert forecasts[1] == WaitForecast("silent", 10.0, 10.0, 10.25)


def test_a_leader_that_moves_its_log_is_expected_to_run_into_the_timeout(room: Room) -> None:
    log_dirs = room.live.log_dirs

    def moving(partitions: Any = None) -> LogDirsAnswer:
        seen = log_dirs(partitions)
        copies = [
            ReplicaSize(broker_id, "/d2", TOPIC, partition, 1, 5, is_future=True)
            for broker_id, partition in ((1, 0), (2, 1))  # a follower's move holds nobody up
        ]
        return replace(seen, replicas=(*seen.replicas, *copies))

    room.live.log_dirs = moving  # type: ignore[method-assign]
    plan = room.plan(overrides=(Override("leader-log-dir-move", None, "known", "ann", NOW),))
    rows = room.journal.partitions(room.queue(plan))
    sample = receipt_bytes.measure(room.live, list(room.live.parts), NOW)
    facts = recheck(room.live, plan, rows, NOW, room.standards).allowed
    polls = {1: 500, 2: 500, 3: 500}
    found = expected(room.live, facts, sample, polls, 10_000, now=room.clock, sleep=_never)
    assert {key.partition: wait.cause for key, wait in found.items()} == {
        0: "log-dir-move", 1: "keeps-up", 2: "keeps-up",
    }  # fmt: skip


def _never(seconds: float) -> None:
    raise AssertionError(f"slept {seconds} s for nothing")


def test_followers_out_of_sync_are_looked_at_twice_before_they_are_judged(room: Room) -> None:
    room.live.parts[TopicPartition(TOPIC, 0)].isr = (1, 2)
    plan = room.plan(overrides=(Override("under-replicated", None, "known", "ann", NOW),))
    before = room.clock.now
    view = room.carry_out(plan)
    forecast = view.partitions[0].wait_forecast
    # The fake's follower is at the log end: about to be let in again.
    assert forecast is not None
    assert forecast.cause == "keeps-up"
    assert (room.clock.now - before).total_seconds() >= 1.0


def test_modes_that_wait_for_nobody_and_unreadable_sizes_have_no_forecast(tmp_path: Path) -> None:
    leader = Room(tmp_path / "leader")
    assert leader.carry_out(mode="leader-only-verified").partitions[0].wait_forecast is None
    hidden = Room(tmp_path / "hidden")
    log_dirs = hidden.live.log_dirs
    hidden.live.log_dirs = lambda keys=None: replace(log_dirs(keys), replicas=())  # type: ignore[method-assign]
    plan = hidden.plan(overrides=(Override("leader-log-dir-move", None, "known", "ann", NOW),))
    assert hidden.carry_out(plan).partitions[0].wait_forecast is None
    for made in (leader, hidden):
        made.journal.close()


def test_rows_of_older_journals_have_neither(room: Room) -> None:
    run_id = room.queue(room.plan())
    with room.journal.file.write() as db:
        (stored,) = db.execute("SELECT body FROM run_partitions").fetchone()
        body = json.loads(unpack(stored))
        del body["wait_forecast"], body["waited_seconds"]
        db.execute("UPDATE run_partitions SET body = ?", (json.dumps(body),))
    (first, *_) = room.journal.partitions(run_id)
    assert (first.wait_forecast, first.waited_seconds) == (None, None)
