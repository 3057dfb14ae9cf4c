"""A fault is asked for by a file, broken once, told, and healed; one that fails says why."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.core import demo_faults
from dashboard.core.demo_faults import Fault
from dashboard.core.errors import DemoError
from dashboard.demo import faults, state, verbs
from dashboard.demo.faults import obey
from dashboard.demo.state import DemoState, ProcessId
from dashboard.settings.settings import Settings


class Part:
    """Notes what is done to it; fails when told to."""

    def __init__(self, error: DemoError | None = None) -> None:
        self.done: list[str] = []
        self.error = error

    def breaks(self) -> str:
        self.done.append("breaks")
        if self.error:
            raise self.error
        return "it is in two"

    def heals(self) -> None:
        self.done.append("heals")


def test_it_is_broken_once_and_healed_once(tmp_path: Path) -> None:
    part = Part()
    obey(tmp_path, {"group": part})
    assert part.done == []

    demo_faults.ask(tmp_path, "group")
    for _ in range(3):
        obey(tmp_path, {"group": part})
    assert part.done == ["breaks"]
    assert demo_faults.told(tmp_path) == {"group": Fault("group", "broken", "it is in two")}

    demo_faults.take_back(tmp_path, "group")
    for _ in range(3):
        obey(tmp_path, {"group": part})
    assert part.done == ["breaks", "heals"]
    assert demo_faults.told(tmp_path) == {}


def test_one_that_fails_says_why_is_not_tried_again_and_can_be_healed(tmp_path: Path) -> None:
    part = Part(DemoError("too little room", "Make some."))
    demo_faults.ask(tmp_path, "disk")
    for _ in range(3):
        obey(tmp_path, {"disk": part})
    assert part.done == ["breaks"]
    assert demo_faults.told(tmp_path) == {"disk": Fault("disk", "failed", "too little room")}
    demo_faults.take_back(tmp_path, "disk")
    obey(tmp_path, {"disk": part})
    assert part.done == ["breaks", "heals"]
    assert demo_faults.told(tmp_path) == {}


def test_nobody_breaks_what_is_anothers(tmp_path: Path) -> None:
    """The supervisor and the workload read the same room, each for its own kinds."""
    mine, others = Part(), Part()
    demo_faults.ask(tmp_path, "broker")
    obey(tmp_path, {"group": mine})
    assert demo_faults.told(tmp_path) == {}
    obey(tmp_path, {"broker": others})
    assert (mine.done, others.done) == ([], ["breaks"])


def test_a_file_that_is_half_written_is_no_fault(tmp_path: Path) -> None:
    demo_faults.tell(tmp_path, Fault("group", "broken"))
    (tmp_path / "faults" / "group.json").write_text('{"kind": "gro')
    assert demo_faults.told(tmp_path) == {}


def test_only_processes_of_a_demo_have_a_room(tmp_path: Path) -> None:
    assert demo_faults.room({}) is None
    assert demo_faults.room({demo_faults.MARK: str(tmp_path / "gone")}) is None
    assert demo_faults.room({demo_faults.MARK: str(tmp_path)}) == tmp_path


def test_no_disk_is_filled_that_is_short_of_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = SimpleNamespace(free=faults.LEAST_FREE_BYTES - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: short)
    with pytest.raises(DemoError, match="9 GiB free") as caught:
        faults.Flood("unused:1", tmp_path).breaks()
    assert caught.value.code == "DEMO_FAULT_FAILED"


def test_a_follower_is_not_stopped_beside_a_stopped_broker(tmp_path: Path) -> None:
    """Two of three controllers are a quorum, one is none."""
    demo_faults.tell(tmp_path, Fault("broker", "broken"))
    cluster: Any = object()  # of which nothing is asked
    with pytest.raises(DemoError, match="stands still") as caught:
        faults.SlowFollower(cluster, tmp_path).breaks()
    assert "heal broker" in caught.value.next_step


def test_a_refused_follower_has_nothing_to_take_back(tmp_path: Path) -> None:
    cluster: Any = object()
    faults.SlowFollower(cluster, tmp_path).heals()
    assert list(tmp_path.iterdir()) == [], "it tells nobody of what was not done"


@contextmanager
def obeyed(room: Path, part: Part) -> Iterator[None]:
    """Somebody who obeys, as the demo's processes do."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(0.05):
            obey(room, {"group": part})

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """`lowwater demo WORDS --json` beside a demo that runs, as far as its state file tells."""
    found = DemoState(ProcessId.of(os.getpid()), str(tmp_path), "running", "4.3.1", "d", "s")
    state.write(tmp_path / "state", found)
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))

    def call(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
        code = main(["demo", *words, "--json"])
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return {**answer, "code": code}

    return call


def test_the_command_line_breaks_tells_and_heals(
    tmp_path: Path, demo: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    part = Part()
    with obeyed(tmp_path, part):
        broken = demo(capsys, "break", "group")
        status = demo(capsys, "status")
        healed = demo(capsys, "heal")
    assert broken == {"kind": "group", "state": "broken", "said": "it is in two", "code": 0}
    assert status["faults"] == [{"kind": "group", "state": "broken", "said": "it is in two"}]
    assert healed == {"healed": ["group"], "code": 0}
    assert demo(capsys, "heal", "group") == {"healed": [], "code": 0}
    assert part.done == ["breaks", "heals"]


def test_a_fault_that_fails_is_an_error_and_leaves_nothing_asked_for(
    tmp_path: Path, demo: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    with obeyed(tmp_path, Part(DemoError("too little room", "Make some."))):
        answer = demo(capsys, "break", "group")
    assert answer["error"]["code"] == "DEMO_FAULT_FAILED"
    assert "too little room" in answer["error"]["message"]
    assert demo_faults.asked(tmp_path) == set()


def test_who_does_not_answer_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = DemoState(ProcessId.of(os.getpid()), str(tmp_path), "running", "4.3.1", "d", "s")
    state.write(tmp_path / "state", found)
    monkeypatch.setattr(verbs, "FAULT_TIMEOUT_SECONDS", 0.2)
    with pytest.raises(DemoError, match="nothing more was heard of group"):
        verbs.broken(Settings(state_dir=tmp_path / "state"), lambda _: None, "group")


@pytest.mark.parametrize("words", [["break"], ["break", "everything"], ["status", "group"]])
def test_what_to_break_stands_behind_break(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "USAGE"


def test_a_group_dies_with_its_members_gone_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets of a group that has members are not a stranger's to commit."""
    done: list[str] = []

    class Reader:
        def leave(self) -> None:
            done.append("leave")

        def join(self) -> None:
            done.append("join")

    def set_back(_bootstrap: str, group: str, topics: list[Any], share: float) -> None:
        done.append(f"{group} to {share} of {','.join(topic.name for topic in topics)}")

    monkeypatch.setattr(faults.load, "set_back", set_back)
    group = faults.DeadGroup("unused:1", [Reader()])
    assert "web-sessions" in group.breaks()
    group.heals()
    assert done == ["leave", "session-builder to 0.1 of web-sessions", "join"]
