"""Clearing a room ends all that carries its mark, and removes nothing but a room."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.demo import guardian, state, verbs
from dashboard.demo.children import Place
from dashboard.demo.state import DemoState, ProcessId
from dashboard.settings.settings import Settings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return state.make()


def start_marked(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["sleep", "60"], env={**os.environ, state.MARK: str(folder)}, start_new_session=True
    )


def test_a_detached_process_with_the_mark_is_killed_and_one_without_is_not(folder: Path) -> None:
    with start_marked(folder) as marked, subprocess.Popen(["sleep", "60"]) as other:
        assert list(state.marked(str(folder))) == [marked.pid]
        state.clear(str(folder))
        assert marked.wait(60) == -9
        assert other.poll() is None
        other.kill()
    assert not folder.exists()


def test_a_folder_that_is_no_room_is_never_removed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    state.clear(str(precious))
    assert precious.exists()


def test_the_guardian_clears_the_room_when_its_supervisor_is_gone(
    folder: Path, tmp_path: Path
) -> None:
    states = tmp_path / "state"
    state.write(
        states, DemoState(ProcessId(1, 1), str(folder), "running", "4.3.1", "data", "settings")
    )
    guard = guardian.start(folder, states, tmp_path / "guardian.log")
    with start_marked(folder) as marked:
        assert guard.poll() is None
        guardian.stop(guard)  # closes the pipe, as the end of a supervisor does
        assert marked.wait(60) == -9
    assert not folder.exists()
    assert state.read(states) is None


def test_the_guardian_ends_with_a_killed_supervisor(folder: Path, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from dashboard.demo import guardian;"
        "g = guardian.start(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[2]) / 'log');"
        "print(g.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(tmp_path)], stdout=subprocess.PIPE
    ) as supervisor:
        assert supervisor.stdout is not None
        supervisor.stdout.readline()
        supervisor.kill()
    deadline = time.monotonic() + 120
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not folder.exists()


def test_a_shell_with_the_demos_settings_finds_the_demo_in_its_own_journals_folder(
    folder: Path, tmp_path: Path
) -> None:
    callers = tmp_path / "callers"
    place = Place(folder, "data", folder / "lowwater.toml", 8501)
    found = DemoState(
        ProcessId.of(os.getpid()), str(folder), "running", "4.3.1", "data", str(place.settings)
    )
    state.write(callers, found)
    state.furnish(place.state_dir, callers)
    assert stat.S_IMODE(place.state_dir.stat().st_mode) == 0o700
    later = replace(found, bootstrap="b:1")
    state.write(callers, later)
    assert state.read(place.state_dir) == later

    state.remove(callers, found.room)
    assert state.read(place.state_dir) is None


def test_down_of_a_crashed_demo_in_a_shell_with_its_settings_clears_it(
    folder: Path, tmp_path: Path
) -> None:
    callers = tmp_path / "callers"
    gone = ProcessId(os.getpid(), 1)
    state.write(callers, DemoState(gone, str(folder), "running", "4.3.1", "d", "s"))
    state.furnish(folder / "state", callers)
    within, outside = Settings(state_dir=folder / "state"), Settings(state_dir=callers)
    assert verbs.down(within, print) == verbs.Ended(stopped=False, cleared=True)
    assert not folder.exists()
    assert verbs.down(outside, print) == verbs.Ended(stopped=False, cleared=False)
