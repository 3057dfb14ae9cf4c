"""The Python call tells what became of each partition by its error alone: None means done."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard import calls
from dashboard.core.clock import utc_now
from dashboard.core.errors import JournalError, RefusedError
from dashboard.purge.execute.readback import Seen
from dashboard.purge.execute.states import settled
from dashboard.purge.jobs import queue
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Follower, PartitionRow, RunView
from tests.support.sample_plan import sample_plan
from tests.unit.purge.facts_of import NOW

CAME_BACK = Follower(2, 0, True, False, None, 100)
ARRIVED = Follower(2, 100, True, True, None, None)


def called(
    monkeypatch: pytest.MonkeyPatch,
    row: PartitionRow,
    *,
    capped_by: str | None = None,
    leader_only: bool = False,
) -> calls.DeletedRecords:
    """What the call returns where its run closes with this row."""
    plan = sample_plan(NOW)
    one = replace(
        plan.partitions[0], topic="t", partition=0, target_offset=100, guards=(),
        capped_by=capped_by,
    )  # fmt: skip

    class View:
        partitions = (row,)

    monkeypatch.setattr(calls, "_planned", lambda *_: replace(plan, partitions=(one,)))
    monkeypatch.setattr(calls, "_carried_out", lambda *_, **__: View())
    found = calls.delete_records({("t", 0): 100}, bootstrap_servers="h:1", leader_only=leader_only)
    return found["t", 0]


def answered_without_error(follower: Follower, *, wait_all: bool) -> PartitionRow:
    """The leader answered 0; then it was read with this follower."""
    sent = PartitionRow("t", 0, 100, "sent", attempts=1, sent_at=NOW, answer_error_code=0)
    seen = Seen(1, 0, 100, (follower,))
    return settled(sent, seen, wait_all=wait_all, may_resend=True)


def test_none_means_that_all_of_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    row = answered_without_error(ARRIVED, wait_all=True)
    assert called(monkeypatch, row) == calls.DeletedRecords(100, 100, None)
    behind = answered_without_error(CAME_BACK, wait_all=False)
    assert called(monkeypatch, behind, leader_only=True).error is None


def test_a_follower_behind_is_an_error_of_who_waits_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was dead when the leader answered, and came back with the records."""
    row = answered_without_error(CAME_BACK, wait_all=True)
    assert called(monkeypatch, row) == calls.DeletedRecords(0, 100, "leader_done")


def test_so_is_an_offset_that_a_replay_window_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    row = answered_without_error(ARRIVED, wait_all=True)
    assert called(monkeypatch, row, capped_by="replay-window").error == "replay-window"


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), JournalError("the disk is full", "Free it.")]
)
def test_who_stops_waiting_is_told_which_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    """Nothing was sent, says an error that comes before a run is queued; this one does not."""

    def interrupted(*_: object) -> RunView:
        raise error

    plan = sample_plan(NOW)
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(calls, "_planned", lambda *_: plan)
    monkeypatch.setattr(queue, "enqueue", lambda *_, **__: "run-1")
    monkeypatch.setattr(calls, "follow", interrupted)
    with pytest.raises(type(error)) as told:
        calls.delete_records({(plan.partitions[0].topic, 0): 1}, bootstrap_servers="h:1")
    assert "run run-1 goes on; see: lowwater run run-1 --wait" in told.value.__notes__


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), JournalError("no memory", "Free it.", code="WORKER_NOT_STARTED")]
)
def test_who_is_told_of_no_run_though_it_is_queued_is_told_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: BaseException
) -> None:
    """It is in the journal before its worker is started: the next look starts another one."""

    def not_started(*_: object) -> int:
        raise error

    plan = sample_plan(utc_now())
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(calls, "_planned", lambda *_: plan)
    monkeypatch.setattr(queue, "spawn", not_started)
    with pytest.raises(type(error)) as told:
        calls.delete_records({(plan.partitions[0].topic, 0): 1}, bootstrap_servers="h:1")
    with closing(Journal(tmp_path / "journal.sqlite")) as journal:
        (run,) = journal.runs()
    assert f"run {run.run_id} goes on" in told.value.__notes__[-1]


def test_what_is_refused_before_it_is_queued_names_no_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = sample_plan(utc_now())
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("LOWWATER_READ_ONLY", "true")
    monkeypatch.setattr(calls, "_planned", lambda *_: plan)
    with pytest.raises(RefusedError) as told:
        calls.delete_records({(plan.partitions[0].topic, 0): 1}, bootstrap_servers="h:1")
    assert not [note for note in told.value.__notes__ if "goes on" in note]
