"""A settings file that is being written is not believed before it is whole."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dashboard.core.errors import SettingsError
from dashboard.people import people
from dashboard.settings import current, settled_file
from dashboard.settings.settings import Settings, load

WHOLE = """read_only = true
[people]
operators = ["bob"]
approvers = ["ann"]
second_person = true
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settled_file, "QUIET_SECONDS", 0.2)
    made = tmp_path / "lowwater.toml"
    made.write_text(WHOLE)
    return made


@contextmanager
def half_written(file: Path, half: str) -> Iterator[None]:
    """The rest of it follows in a moment."""
    file.write_text(half)
    rest = threading.Timer(0.05, lambda: file.write_text(WHOLE))
    rest.start()
    yield
    rest.join()


@pytest.mark.parametrize("half", ["", WHOLE[: WHOLE.index("second")]])
@pytest.mark.parametrize(
    "forbids",
    [
        lambda settings: current.why_read_only(settings, {}) is not None,
        people.second_person,
        lambda settings: load(settings.source, {}).people.second_person,
    ],
)
def test_what_forbids_counts_while_an_editor_saves_it(
    file: Path, half: str, forbids: Callable[[Settings], bool]
) -> None:
    settings = load(file, {})
    with half_written(file, half):
        assert forbids(settings)


def test_one_that_never_rests_is_an_error_that_says_so(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled_file, "_MOST_SECONDS", 0.3)
    real, ours = time.sleep, threading.current_thread()

    def sleep(seconds: float) -> None:  # other threads of this process sleep as they like
        if threading.current_thread() is not ours:
            return real(seconds)
        file.write_text(f"# {time.monotonic_ns()}")
        return None

    monkeypatch.setattr(time, "sleep", sleep)
    with pytest.raises(SettingsError, match="changes again and again"):
        load(file, {})


@pytest.mark.parametrize("hours", [-1, 1])
def test_one_of_long_ago_is_read_at_once_and_one_of_a_time_to_come_is_looked_at(
    file: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    slept: list[float] = []
    real, ours = time.sleep, threading.current_thread()

    def sleep(seconds: float) -> None:  # other threads of this process sleep as they like
        if threading.current_thread() is ours:
            slept.append(seconds)
        real(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    at = time.time() + 3600 * hours
    os.utime(file, (at, at))
    assert load(file, {}).read_only
    assert bool(slept) == (hours > 0)


def test_a_file_servers_clock_that_is_behind_makes_no_half_a_file_an_old_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled_file, "is_local", lambda _: False)
    settings = load(file, {})
    with half_written(file, WHOLE[: WHOLE.index("second")]):
        behind = time.time() - 60
        os.utime(file, (behind, behind))
        assert people.second_person(settings)
