"""Which evidence moves a partition into which state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.domain.model import DeleteRecordsPartitionResult
from dashboard.purge.execute.readback import GONE, Seen
from dashboard.purge.execute.states import (
    MOST_ATTEMPTS,
    answered,
    doubtful,
    held_back,
    not_sent,
    run_state,
    settled,
    unanswered,
)
from dashboard.purge.journal.rows import Follower, PartitionRow
from tests.unit.purge.facts_of import NOW

SENT = PartitionRow(
    "t", 0, 60, "sent", attempts=1, sent_leader_id=1, sent_leader_epoch=3, sent_at=NOW
)


def seen(start: int | None, *followers: int | None, epoch: int = 3, **change: object) -> Seen:
    """The leader's log start, and those of followers 2, 3 … (None: unread)."""
    rows = tuple(
        Follower(2 + i, s, alive=True, arrived=s is not None and s >= 60)
        for i, s in enumerate(followers)
    )
    return Seen(1, epoch, start, rows, **change)  # type: ignore[arg-type]


def after(row: PartitionRow, found: Seen, **change: bool) -> PartitionRow:
    return settled(row, found, **{"wait_all": True, "may_resend": True, **change})


def result(code: int, low: int = -1) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult("t", 0, low, -1, code, f"E{code}" if code else None)


@pytest.mark.parametrize("code", [1, 17, 29, 44])
def test_four_errors_prove_that_nothing_moved(code: int) -> None:
    row = answered(SENT, result(code))
    assert (row.state, row.error) == ("not_done", f"E{code}")


@pytest.mark.parametrize("code", [-1, 3, 6, 7, 56])
def test_after_any_other_error_only_reading_tells(code: int) -> None:
    assert answered(SENT, result(code)).state == "unknown"
    assert unanswered(SENT, "ANSWER_LOST").state == "unknown"


def test_success_is_not_believed_before_the_leader_was_read() -> None:
    assert answered(SENT, result(0, 60)).state == "sent"


def test_done_needs_every_replica_at_the_target() -> None:
    row = after(SENT, seen(60, 60, 61))
    assert (row.state, row.low_watermark, row.leader_log_start_offset) == ("done", 60, 60)


@pytest.mark.parametrize("behind", [0, 59, None])
def test_a_follower_behind_makes_it_leader_done_and_is_named(behind: int | None) -> None:
    row = after(SENT, seen(60, 60, behind))
    assert row.state == "leader_done"
    assert row.to_json()["followers_behind"] == [3]


def test_a_log_dir_move_of_the_leader_is_a_replica_behind() -> None:
    moving = after(SENT, seen(60, 60, 60, leader_moves=True))
    assert (moving.state, moving.low_watermark) == ("leader_done", None)
    assert "another log dir" in str(moving.message)


def test_a_dead_replica_does_not_hold_it_back_and_is_listed() -> None:
    found = replace(seen(60, 60), followers=(Follower(3, None, alive=False, arrived=False),))
    row = after(SENT, found)
    assert (row.state, row.to_json()["dead_replicas"]) == ("done", [3])


def test_a_timeout_with_the_leader_at_the_target_keeps_its_name_in_wait_all_only() -> None:
    timed_out = answered(SENT, result(7))
    assert after(timed_out, seen(60, 0)).error == "E7"
    assert after(timed_out, seen(60, 0), wait_all=False).error is None


def test_an_unread_leader_leaves_it_unknown() -> None:
    assert after(SENT, seen(None)).state == "unknown"
    assert after(replace(SENT, state="pending"), seen(None)).state == "pending"


def test_a_lost_answer_below_the_target_is_sent_again_and_then_given_up() -> None:
    lost = unanswered(SENT, "ANSWER_LOST")
    assert after(lost, seen(0, 0)).state == "pending"
    worn = replace(lost, attempts=MOST_ATTEMPTS)
    assert (after(worn, seen(0, 0)).state, after(worn, seen(0, 0)).error) == (
        "not_done",
        "ANSWER_LOST",
    )
    assert after(lost, seen(0, 0), may_resend=False).state == "not_done"


@pytest.mark.parametrize("code", [1, 17, 29, 35, 44])
def test_a_refused_repetition_proves_nothing_of_the_request_before_it(code: int) -> None:
    assert not doubtful(answered(SENT, result(code)))
    again = replace(after(unanswered(SENT, "ANSWER_LOST"), seen(0, 0)), state="sent", attempts=2)
    refused = answered(again, result(code))
    assert refused.state == "unknown", "only reading tells what became of the first"
    below = after(refused, seen(0, 0))
    assert (below.state, below.error, doubtful(below)) == ("not_done", f"E{code}", True)
    assert after(refused, seen(60, 60)).state == "done"
    assert after(below, seen(60, 60)).state == "done"
    assert after(refused, seen(None)).state == "unknown"


def test_a_refusal_before_sending_clears_no_doubt_either() -> None:
    once = after(unanswered(SENT, "ANSWER_LOST"), seen(0, 0))
    assert doubtful(not_sent(once, "unread-by-group"))
    assert not doubtful(not_sent(PartitionRow("t", 0, 60, "pending"), "unread-by-group"))


def test_what_is_not_sent_again_is_not_done_only_while_its_leader_is_below() -> None:
    """Since it was read below, who holds the truncation may lead again (seeds 1884 and 6950)."""
    again = after(unanswered(SENT, "ANSWER_LOST"), seen(0, 0))
    assert again.state == "pending"

    def found(now: Seen | None) -> tuple[str, str | None]:
        row = held_back(again, now, lambda r: not_sent(r, "CANCELLED"), wait_all=True)
        return row.state, row.error

    assert found(seen(0, 0)) == ("not_done", "CANCELLED")
    assert found(seen(60, 60)) == ("done", None)
    assert found(seen(60, 0))[0] == "leader_done"
    assert found(seen(None)) == ("unknown", "CANCELLED")
    assert found(None) == ("unknown", "CANCELLED")
    assert found(seen(None, error=GONE)) == ("not_done", "CANCELLED")


@pytest.mark.parametrize("code", [0, 7])
def test_a_new_leader_below_the_target_brought_records_back(code: int) -> None:
    row = after(answered(SENT, result(code)), seen(0, 0, epoch=4))
    assert (row.state, row.error) == ("reverted", "RECORDS_CAME_BACK")


def test_after_a_lost_answer_a_new_leader_below_proves_no_reversal() -> None:
    assert after(unanswered(SENT, "ANSWER_LOST"), seen(0, 0, epoch=4)).state == "pending"


@pytest.mark.parametrize("state", ["done", "leader_done"])
def test_what_was_done_and_starts_below_the_target_later_is_reverted(state: str) -> None:
    assert after(replace(SENT, state=state), seen(0, 60, epoch=9)).state == "reverted"


def test_a_follower_that_arrives_makes_leader_done_done() -> None:
    assert after(replace(SENT, state="leader_done"), seen(60, 60, 60)).state == "done"


@pytest.mark.parametrize(
    ("states", "mode", "expected"),
    [
        (["done", "done"], "wait-all", "done"),
        (["done", "leader_done"], "wait-all", "partial"),
        (["done", "leader_done"], "leader-only", "done"),
        (["done", "unknown"], "leader-only", "partial"),
        (["reverted"], "wait-all", "partial"),
    ],
)
def test_a_run_is_as_good_as_its_partitions(states: list[str], mode: str, expected: str) -> None:
    rows = [replace(SENT, state=state) for state in states]
    assert run_state(rows, mode, cancelled=False) == expected


def test_a_run_is_refused_only_when_nothing_was_sent() -> None:
    never = PartitionRow("t", 0, 60, "not_done")
    assert run_state([never], "wait-all", cancelled=False) == "refused"
    answered_no = replace(SENT, state="not_done")
    assert run_state([never, answered_no], "wait-all", cancelled=False) == "partial"
    assert run_state([never], "wait-all", cancelled=True) == "cancelled"


@pytest.mark.parametrize("state", ["done", "leader_done", "reverted", "not_done"])
def test_a_look_that_sees_no_leader_undoes_nothing_that_an_earlier_one_saw(state: str) -> None:
    known = replace(
        SENT, state=state, leader_id=1, followers=(Follower(3, None, alive=False, arrived=False),)
    )
    untold = Seen(None, None, None, (), error="TOPIC_AUTHORIZATION_FAILED")
    assert after(known, untold) == known
    assert after(replace(known, state="sent"), untold).followers == known.followers


def test_why_a_row_waited_is_no_error_of_what_it_found_there() -> None:
    waited = PartitionRow("t", 0, 60, "pending", error="not-planned", message="nothing was to go")
    found = after(waited, seen(60, 0))
    assert (found.state, found.error) == ("leader_done", None)
