"""All that is kept is remembered: a snapshot is unread until an analysis names it."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.history import findings_age
from dashboard.history.findings_age import holes
from dashboard.history.pruning import prune_snapshots
from dashboard.purge.evidence import memory
from dashboard.settings.sections import SnapshotSettings
from dashboard.store import snapshot_files
from tests.support import looks
from tests.support.lab import START, Lab, Snapshot, names

READ = {("t", "a"): 60}


def _at(lab: Lab, minute: int, snapshot: Snapshot) -> str:
    lab.minutes = minute - 1
    return lab.write(snapshot)


def _plain(**groups: int) -> Snapshot:
    return Snapshot().topic("t", groups={"a": 60, **groups})


def _folder(lab: Lab, snapshot: str) -> Path:
    return Path(lab.cluster.path) / "snapshots" / snapshot


def _remembered(lab: Lab) -> dict[str, int | None]:
    return {o.group_id: o.committed_offset for o in memory.remembered(lab.cluster, ["t"])}


def _thinned(lab: Lab) -> tuple[str, ...]:
    at = START + timedelta(minutes=lab.minutes)
    keep = SnapshotSettings(timedelta(0), timedelta(0), timedelta(0))
    return prune_snapshots(lab.cluster, keep, at).removed


@pytest.mark.further
@pytest.mark.parametrize("latest", ["whole", "torn", "gone"])
def test_memory_goes_on_behind_a_snapshot_of_a_time_to_come_that_was_removed(
    lab: Lab, latest: str
) -> None:
    _at(lab, 1, _plain())
    lab.analyze()
    ahead = _at(lab, 180, _plain())
    lab.analyze()
    shutil.rmtree(_folder(lab, ahead))
    pointer = Path(lab.cluster.path) / "findings" / "LATEST"
    if latest == "torn":
        pointer.write_bytes(b"\xff")
    elif latest == "gone":
        pointer.unlink()
    seen = _at(lab, 5, _plain(g=20))
    assert seen > ahead
    if latest == "torn":
        pointer.unlink()  # as the error says
    assert _remembered(lab)["g"] == 20
    for minute, full in ((6, False), (7, True)):
        _at(lab, minute, _plain())
        assert lab.analyze(full=full).published
        assert looks.held(lab) == {**READ, ("t", "g"): 20}
    assert lab.targets()["t"]["target_offset"] == 20


def _hex(*first: str) -> Iterator[str]:
    yield from first
    while True:
        yield secrets.token_bytes(2).hex()


@pytest.mark.further
def test_a_snapshot_sorts_behind_one_that_was_analyzed_and_removed_in_its_millisecond(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids count up by a millisecond behind one of a time to come."""
    _at(lab, 180, _plain())
    tokens = _hex("ffff")
    monkeypatch.setattr(snapshot_files.secrets, "token_hex", lambda _: next(tokens))
    damaged = _at(lab, 2, _plain())
    lab.analyze()
    shutil.rmtree(_folder(lab, damaged))
    tokens = _hex("0000")
    assert _at(lab, 3, _plain(g=20)) > damaged
    lab.analyze()
    _at(lab, 4, _plain())
    lab.analyze()
    assert looks.held(lab) == {**READ, ("t", "g"): 20}


def _overtaken(lab: Lab, late: Snapshot) -> str:
    """Committed when one that was begun later has been analyzed: it sorts before that."""
    lab.write(_plain(etl=50, on=30))
    lab.analyze()
    late_id = _at(lab, 5, late)
    hidden = Path(lab.cluster.path) / "late"
    _folder(lab, late_id).rename(hidden)
    assert _at(lab, 7, Snapshot().topic("t", groups={"a": 60, "on": 40})) > late_id
    lab.analyze()
    hidden.rename(_folder(lab, late_id))
    return late_id


def test_a_snapshot_that_comes_to_stand_before_the_analyzed_one_is_read(lab: Lab) -> None:
    late = _overtaken(lab, _plain(g=20, on=35))
    assert _remembered(lab) == {"a": 60, "etl": 50, "g": 20, "on": 40}, "plans read it at once"
    _at(lab, 8, _plain(on=40))
    assert _thinned(lab) != ()
    assert late in lab.cluster.ids("snapshots"), "no analysis knows it: it stays"
    done = lab.analyze()
    assert looks.held(lab) == {**READ, ("t", "etl"): 50, ("t", "g"): 20, ("t", "on"): 40}
    assert (holes(lab.cluster), done.left_out) == ({}, ())
    assert late in lab.cluster.manifest("findings", done.analysis_id).details[findings_age.DETAIL]
    assert late in _thinned(lab)
    _at(lab, 9, _plain(on=40))
    following = lab.analyze()
    details = lab.cluster.manifest("findings", following.analysis_id).details
    assert details["holds_from"] == done.analysis_id, "once is enough"
    assert looks.held(lab)[("t", "g")] == 20


@pytest.mark.further
def test_whom_such_a_snapshot_met_without_its_offset_has_begun_anew(lab: Lab) -> None:
    late = Snapshot().topic("t", groups={"a": 60, "on": 35}).group("etl", "t", is_streams=True)
    _overtaken(lab, late)
    assert set(memory.met(lab.cluster, ["t"])) == {("etl", ""), ("etl", "t")}
    assert "etl" in memory.streams(lab.cluster)
    _at(lab, 8, _plain(on=40))
    lab.analyze()
    assert names(lab.targets()["t"]) == ["no-committed-offset", "changelog-source"]


@pytest.mark.further
def test_an_analysis_of_an_earlier_version_is_taken_to_know_what_lies_before_its_own(
    lab: Lab,
) -> None:
    late = _overtaken(lab, _plain(g=20))
    path = Path(lab.cluster.path) / "findings" / lab.cluster.latest_analysis() / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["details"][findings_age.DETAIL]
    path.write_text(json.dumps(manifest))
    assert "g" not in _remembered(lab)
    _at(lab, 8, _plain())
    lab.analyze()
    assert looks.held(lab)[("t", "g")] == 20, "the first analysis here reads all that is kept"
    assert late in lab.cluster.ids("snapshots")


def test_of_what_lies_before_the_named_ones_nothing_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(findings_age, "MOST", 3)
    kept = [f"20260301T0401{n:02}000Z-0000" for n in range(9)]
    named = findings_age.told(kept[:4] + kept[5:8], kept[7])
    assert named == kept[5:8]
    details = {"snapshot_id": kept[7], findings_age.DETAIL: named}
    analysis = snapshot_files.Manifest("a", START, {}, 0.0, details)
    assert findings_age.late(kept, analysis) == []
    between = "20260301T040106500Z-0000"
    assert findings_age.late([*kept, between], analysis) == [between]


@pytest.mark.further
def test_an_older_snapshot_that_is_analyzed_again_is_not_shown(lab: Lab) -> None:
    older = lab.write(_plain())
    lab.write(_plain())
    shown = lab.analyze()
    assert shown.published
    done = lab.analyze(snapshot_id=older)
    assert not done.to_json()["published"]
    assert lab.cluster.latest_analysis() == shown.analysis_id


@pytest.mark.further
def test_memory_does_not_go_back_with_a_pointer_that_was_put_back(lab: Lab) -> None:
    """LATEST out of a backup; or two analyses ended at once, and the slower one was of before."""
    lab.write(_plain())
    before = lab.analyze()
    brief = lab.write(_plain(g=20))
    lab.analyze()
    lab.write(_plain())
    newest = lab.analyze()
    assert brief in _thinned(lab), "by now the newest analysis alone remembers g"
    lab.cluster.set_latest(before.analysis_id)

    assert lab.cluster.latest_analysis() == newest.analysis_id
    assert _remembered(lab) == {"a": 60, "g": 20}
    lab.write(_plain())
    assert lab.analyze().published
    assert lab.targets()["t"]["target_offset"] == 20
    assert looks.held(lab) == {**READ, ("t", "g"): 20}
