"""The state file names processes for certain; one that is not ours to read counts as none."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from dashboard.demo import state
from dashboard.demo.state import DemoState, ProcessId
from dashboard.demo.supervisor import Supervisor
from dashboard.settings.settings import Settings

RUNNING = DemoState(
    supervisor=ProcessId(10, 20),
    room="/tmp/lowwater-demo-x",
    phase="running",
    kafka_version="4.3.1",
    data="/d",
    settings="/s",
    children={"watch": ProcessId(11, 21)},
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    state.write(tmp_path / "new", RUNNING)
    assert state.read(tmp_path / "new") == RUNNING


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"children": {}, "supervisor": 3}', "null"])
def test_a_file_that_makes_no_sense_counts_as_none(text: str, tmp_path: Path) -> None:
    (tmp_path / state.FILE_NAME).write_text(text)
    assert state.read(tmp_path) is None


def test_only_the_own_room_s_file_is_removed(tmp_path: Path) -> None:
    state.write(tmp_path, RUNNING)
    state.remove(tmp_path, "/tmp/lowwater-demo-other")
    assert state.read(tmp_path) == RUNNING
    state.remove(tmp_path, RUNNING.room)
    assert state.read(tmp_path) is None


def test_a_process_id_used_again_is_not_alive() -> None:
    own = ProcessId.of(os.getpid())
    assert own.alive
    assert own.started is not None
    assert not dataclasses.replace(own, started=own.started - 1).alive
    assert not dataclasses.replace(own, started=None).alive


def test_a_full_disk_leaves_the_old_file_and_no_part_of_a_new_one(tmp_path: Path) -> None:
    state.write(tmp_path, RUNNING)
    (tmp_path / f"{state.FILE_NAME}.partial").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        state.write(tmp_path, dataclasses.replace(RUNNING, phase="starting"))
    assert state.read(tmp_path) == RUNNING
    assert [file.name for file in tmp_path.iterdir()] == [state.FILE_NAME]


def test_a_demo_that_runs_goes_on_when_its_state_cannot_be_written(tmp_path: Path) -> None:
    said: list[str] = []
    demo = Supervisor(Settings(state_dir=tmp_path), said.append, lambda _: None)
    demo._state = RUNNING
    demo._cluster = SimpleNamespace(pids=dict)  # type: ignore[assignment]
    (tmp_path / f"{state.FILE_NAME}.partial").symlink_to("/dev/full")
    demo._note()
    assert "No space left" in said[0]
    demo._note()
    assert state.read(tmp_path) is not None
