"""The loop keeps its beat, survives outages, and has the newest snapshot analyzed."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.collect import watch
from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError, SettingsError
from dashboard.settings.sections import SnapshotSettings
from dashboard.store.snapshots import Store
from tests.support.fake_live import FakeLive, unreachable

Events = list[dict[str, Any]]

SERVER = """
import json, sys
print("a library greets")
print(json.dumps({"ready": True, "seconds": 0.1}), flush=True)
for line in sys.stdin:
    snapshot = json.loads(line)["snapshot_id"]
    BODY
    print(json.dumps({"analysis_id": "a-" + snapshot, "snapshot_id": snapshot}), flush=True)
"""


def server(tmp_path: Path, body: str = "pass") -> Callable[[str, str], list[str]]:
    script = tmp_path / "server.py"
    script.write_text(textwrap.dedent(SERVER).replace("BODY", body))
    return lambda data, cluster_id: [sys.executable, str(script), data, cluster_id]


def run(tmp_path: Path, live: FakeLive, rounds: int, every: float = 0.05, **kwargs: Any) -> Events:
    events: Events = []
    watch.run(
        kwargs.pop("open_live", lambda: live),
        Store(str(tmp_path / "data")),
        every=timedelta(seconds=every),
        now=utc_now,
        rounds=rounds,
        **{"analysis": None, "emit": events.append, **kwargs},
    )
    return events


def named(events: Events, name: str) -> Events:
    return [event for event in events if event["event"] == name]


def test_each_round_is_one_snapshot_event(tmp_path: Path) -> None:
    live = FakeLive()
    events = run(tmp_path, live, 3)
    assert [event["event"] for event in events] == ["snapshot"] * 3
    ids = [event["snapshot_id"] for event in events]
    assert ids == sorted(set(ids))
    assert live.closed == 1


def test_an_outage_is_an_event_and_the_loop_goes_on(tmp_path: Path) -> None:
    live = FakeLive()
    outages = [unreachable(), unreachable()]
    honest = live.topics

    def topics(names: Any) -> Any:
        if outages:
            raise outages.pop()
        return honest(names)

    live.topics = topics  # type: ignore[method-assign]
    events = run(tmp_path, live, 3)
    assert [event["event"] for event in events] == ["error", "error", "snapshot"]
    assert events[0]["error"]["code"] == "CLUSTER_UNREACHABLE"


def test_a_first_connection_that_fails_ends_it(tmp_path: Path) -> None:
    def refuse() -> Any:
        raise unreachable()

    with pytest.raises(ClusterError):
        run(tmp_path, FakeLive(), 1, open_live=refuse)


def test_after_an_outage_it_connects_anew(tmp_path: Path) -> None:
    first, second = FakeLive(), FakeLive()
    first.failing["topics"] = unreachable()
    doors = [first, second]
    events = run(tmp_path, first, 2, open_live=lambda: doors.pop(0))
    assert [event["event"] for event in events] == ["error", "snapshot"]
    assert (first.closed, second.closed) == (1, 1)


def test_it_connects_anew_as_soon_as_it_would_sign_in_otherwise(tmp_path: Path) -> None:
    """Else brokers that restart refuse the old password, one by one, and the rest still answers."""
    first, second = FakeLive(), FakeLive()
    doors: list[Any] = [first, unreachable(), SettingsError("no key", "Correct it."), second]

    def open_live() -> FakeLive:
        door = doors.pop(0)
        if isinstance(door, Exception):
            raise door
        return door

    asked = iter((False, True, True, True, False))
    events = run(tmp_path, first, 5, open_live=open_live, outdated=lambda: next(asked))
    told = [event["event"] for event in events]
    assert told == ["snapshot", "error", "snapshot", "error", *["snapshot"] * 3], "it goes on"
    assert (first.closed, second.closed, doors) == (1, 1, [])


def test_slots_that_passed_are_skipped_without_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: 100.0))
    assert watch._next_slot(97.5, timedelta(seconds=1)) == 3


def test_the_connection_is_remembered_once(tmp_path: Path) -> None:
    told = []
    run(tmp_path, FakeLive(), 2, remember=lambda store: told.append(store.cluster_id))
    assert told == ["fake"]


def test_ctrl_c_ends_the_child_too(tmp_path: Path) -> None:
    live = FakeLive()
    live.failing["offsets"] = KeyboardInterrupt()
    children: list[watch.AnalysisChild] = []

    class Kept(watch.AnalysisChild):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            children.append(self)

    original = watch.AnalysisChild
    watch.AnalysisChild = Kept  # type: ignore[misc]
    try:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, live, 1, analysis=server(tmp_path))
    finally:
        watch.AnalysisChild = original  # type: ignore[misc]
    assert not children[0].alive
    assert live.closed == 1


def test_the_snapshot_is_analyzed_by_one_child(tmp_path: Path) -> None:
    events = run(tmp_path, FakeLive(), 1, analysis=server(tmp_path))
    snapshot = named(events, "snapshot")[0]["snapshot_id"]
    assert [e["snapshot_id"] for e in named(events, "analysis")] == [snapshot]
    assert len(named(events, "analysis-ready")) == 1


def test_a_slow_analysis_gets_the_newest_snapshot_only(tmp_path: Path) -> None:
    all_taken = tmp_path / "all-taken"
    body = f"import pathlib, time; p = pathlib.Path({str(all_taken)!r})\n    " + (
        "while not p.exists(): time.sleep(0.01)"
    )
    events: Events = []

    def told(event: dict[str, Any]) -> None:
        events.append(event)
        if len(named(events, "snapshot")) == 6:
            all_taken.touch()

    run(tmp_path, FakeLive(), 6, every=0.1, analysis=server(tmp_path, body), emit=told)
    analyzed = [e["snapshot_id"] for e in named(events, "analysis")]
    assert analyzed[-1] == named(events, "snapshot")[-1]["snapshot_id"]
    assert len(analyzed) < 6


def test_a_failed_analysis_is_an_event(tmp_path: Path) -> None:
    body = 'print(json.dumps({"error": {"code": "ANALYSIS_FAILED"}}), flush=True); continue'
    events = run(tmp_path, FakeLive(), 1, analysis=server(tmp_path, body))
    assert named(events, "analysis")[0]["error"] == {"code": "ANALYSIS_FAILED"}


def test_a_child_that_dies_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_BACK_OFF_SECONDS", (0.05,))
    monkeypatch.setattr(watch, "_TEND_SECONDS", 0.05)
    mark = tmp_path / "died"
    body = f"import os, pathlib; p = pathlib.Path({str(mark)!r}); " + (
        "p.exists() or (p.touch(), os._exit(9))"
    )
    live = FakeLive()
    events: Events = []
    honest = live.topics

    def until_one_is_analyzed(names: Any) -> Any:
        if any("analysis_id" in event for event in events):
            raise KeyboardInterrupt
        return honest(names)

    live.topics = until_one_is_analyzed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, live, 600, every=0.2, analysis=server(tmp_path, body), emit=events.append)
    answers = named(events, "analysis")
    assert "status 9" in answers[0]["error"]["message"]
    assert "analysis_id" in answers[-1]
    assert len(named(events, "analysis-ready")) == 2


def test_a_child_that_cannot_start_is_an_event(tmp_path: Path) -> None:
    events = run(tmp_path, FakeLive(), 1, analysis=lambda *_: [str(tmp_path / "nothing")])
    assert named(events, "analysis")[0]["error"]["code"] == "ANALYSIS_FAILED"
    assert len(named(events, "snapshot")) == 1


def test_pauses_grow_while_the_analysis_tells_why_it_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_BACK_OFF_SECONDS", (0.01, 0.02, 60.0))
    script = tmp_path / "unavailable.py"
    script.write_text('print(\'{"error": {"code": "SPARK_UNAVAILABLE"}}\')\nraise SystemExit(70)')
    events: Events = []
    child = watch.AnalysisChild([sys.executable, str(script)], events.append)
    deadline = time.monotonic() + 60
    while not any("in 60 s" in str(e) for e in events) and time.monotonic() < deadline:
        child.tend()
        time.sleep(0.01)
    child.close()
    codes = [event["error"]["code"] for event in events]
    assert codes.count("ANALYSIS_FAILED") == 3
    assert "SPARK_UNAVAILABLE" in codes


def test_how_long_snapshots_stay_is_asked_before_each_removal(tmp_path: Path) -> None:
    """A longer time is written while it runs, then the file is wrong for a moment."""
    nothing = SnapshotSettings(timedelta(0), timedelta(0), timedelta(0))
    said: list[SnapshotSettings | None] = [nothing, nothing, SnapshotSettings(), None]

    def keep() -> SnapshotSettings:
        if (found := said.pop(0)) is None:
            raise SettingsError("lowwater.toml is wrong", "Correct it.")
        return found

    events = named(run(tmp_path, FakeLive(), 4, keep=keep), "snapshot")
    assert [len(event["removed"]) for event in events] == [0, 1, 0, 0]
    parts = [{error["part"] for error in event["errors"]} for event in events]
    assert ["prune" in some for some in parts] == [False, False, False, True]
