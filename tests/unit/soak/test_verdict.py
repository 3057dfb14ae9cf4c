"""What a soak's diary proves of its progress."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.soak import verdict
from tests.soak.place import Place


def diary(folder: Path, *lines: tuple[float, str, str]) -> Place:
    """A soak of snapshots every 60 s, and these lines of (at, kind, fault)."""
    kept: list[dict[str, Any]] = [{"at": at, "kind": "snapshot"} for at in range(0, 900, 60)]
    kept += [{"at": at, "kind": kind, "fault": fault, "what": "done", "began": at}
             for at, kind, fault in lines]  # fmt: skip
    (folder / "diary.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    return Place(folder)


def analyses(place: Place) -> verdict.Check:
    _, check = verdict.progress(place, 900.0)
    return check


def test_a_pause_counts_from_the_last_kill_of_what_was_to_end_it(tmp_path: Path) -> None:
    seen = [(at, "analysis", "") for at in (10.0, 100.0, 310.0, 480.0, 650.0, 800.0)]
    killed = (150.0, "fault", "analysis-kill")
    check = analyses(diary(tmp_path, *seen, killed))
    assert check.held
    assert check.found == ["6 in 900 s, the longest pause 210 s"]


def test_a_pause_that_no_kill_explains_is_told_with_the_faults_in_it(tmp_path: Path) -> None:
    seen = [(at, "analysis", "") for at in (10.0, 100.0, 310.0, 480.0, 650.0, 800.0)]
    check = analyses(diary(tmp_path, *seen, (150.0, "fault", "broker-kill")))
    assert not check.held
    assert check.found[1] == "none from 100 to 310 s: broker-kill at 150 s"


def service(folder: Path, *events: dict[str, Any], code: int = 130) -> verdict.Check:
    (folder / "diary.jsonl").write_text(json.dumps({"at": 600.0, "kind": "service", "code": code}))
    (folder / "logs").mkdir()
    told = "".join(json.dumps(event) + "\n" for event in events)
    (folder / "logs" / "policies.jsonl").write_text(told)
    return verdict.services(Place(folder))


PURGED = {"event": "cycle", "state": "ran"}


def test_a_service_that_purges_until_it_is_ended_is_as_it_should_be(tmp_path: Path) -> None:
    check = service(tmp_path, {"event": "error"}, PURGED, PURGED)
    assert (check.held, check.found) == (True, ["lives 1, purges 2"])


def test_a_service_that_ends_by_itself_or_purges_nothing_is_told(tmp_path: Path) -> None:
    check = service(tmp_path, {"event": "cycle", "state": "waiting"}, code=70)
    assert not check.held
    assert check.found[1:] == ["it ended with exit 70 at 600.0 s", "it purged nothing"]
