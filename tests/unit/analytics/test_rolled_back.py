"""What only an older release's analyses remember: rolled back to it for hours, upgraded again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from analytics.job import Analyzed
from dashboard.history.known_since import carried_since
from dashboard.history.pruning import prune_snapshots
from dashboard.purge.evidence import memory
from dashboard.settings.sections import SnapshotSettings
from tests.support import looks
from tests.support.lab import START, Lab, Snapshot, names

# Tables that this release was the first to write, and what its analyses alone tell.
NEW = ("last_writes", "reader_lags", "idle_topics", "retention_fit")
TOLD = ("met_readers", "streams_groups", "absent_topics", "known_since")


def _by_an_older_release(lab: Lab, without: Sequence[str] = ()) -> Analyzed:
    """The findings as a release has them that does not write the new tables."""
    done = lab.analyze()
    folder = _folder(lab, done.analysis_id)
    manifest = json.loads((folder / "manifest.json").read_text())
    for table in NEW:
        del manifest["tables"][table]
        (folder / f"{table}.parquet").unlink()
    manifest["details"] = {k: v for k, v in manifest["details"].items() if k not in without}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return done


def _folder(lab: Lab, analysis_id: str) -> Path:
    return Path(lab.cluster.path) / "findings" / analysis_id


def _rolled_back_and_thinned(lab: Lab, brief: Snapshot, without: Sequence[str] = ()) -> Analyzed:
    """This release, then hours of the older one, to which `brief` alone shows what is gone."""
    lab.write(Snapshot().topic("t", groups={"a": 60, "etl": 50}))
    first = lab.analyze()
    lab.minutes = 60
    lab.write(brief)
    _by_an_older_release(lab, without)
    for minutes in (61, 62, 200):
        lab.minutes = minutes
        newest = lab.write(Snapshot().topic("t", groups={"a": 60}))
        _by_an_older_release(lab, without)
    at = START + timedelta(days=2)  # last sights of groups stay for a day
    prune_snapshots(lab.cluster, SnapshotSettings(timedelta(0), timedelta(0), timedelta(0)), at)
    kept = lab.cluster.ids("snapshots")
    assert without or kept == [newest], "of an analysis that keeps no readers the witnesses stay"
    return first


@pytest.mark.further
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("without", [(), TOLD])
def test_what_only_an_older_releases_analysis_remembers_is_not_forgotten(
    lab: Lab, full: bool, without: Sequence[str]
) -> None:
    brief = Snapshot().topic("t", groups={"a": 60, "etl": 50, "g": 20})
    _rolled_back_and_thinned(lab, brief.group("g", "t", is_streams=True), without)
    began = lab.cluster.manifest("findings", lab.cluster.ids("findings")[0]).details["known_since"]
    lab.write(Snapshot().topic("t", groups={"a": 60}))
    done = lab.analyze(full=full)
    assert looks.held(lab) == {("t", "a"): 60, ("t", "etl"): 50, ("t", "g"): 20}
    assert {o.group_id for o in memory.remembered(lab.cluster, ["t"])} == {"a", "etl", "g"}
    row = lab.targets()["t"]
    assert (row["target_offset"], done.left_out) == (20, ())
    assert without or "g" in memory.streams(lab.cluster)
    assert carried_since(lab.cluster) == began
    lab.write(Snapshot().topic("t", groups={"a": 60}))
    lab.analyze()
    assert looks.held(lab)[("t", "g")] == 20, "and the next one goes on from that"


@pytest.mark.further
def test_whom_only_an_older_release_met_without_its_offset_has_begun_anew(lab: Lab) -> None:
    met = Snapshot().topic("t", groups={"a": 60}).group("etl", "t")
    first = _rolled_back_and_thinned(lab, met)
    lab.write(Snapshot().topic("t", groups={"a": 60}))
    done = lab.analyze()
    assert names(lab.targets()["t"]) == ["no-committed-offset"]
    details = lab.cluster.manifest("findings", done.analysis_id).details
    assert details["holds_from"] != first.analysis_id


@pytest.mark.further
def test_a_damaged_analysis_of_an_older_release_is_missed(lab: Lab) -> None:
    _rolled_back_and_thinned(lab, Snapshot().topic("t", groups={"a": 60, "g": 20}))
    bad = lab.cluster.latest_analysis()
    _folder(lab, bad).joinpath("holds.parquet").write_bytes(b"PAR1")
    lab.write(Snapshot().topic("t", groups={"a": 60}))
    assert lab.analyze().left_out == (bad,)
    assert names(lab.targets()["t"]) == ["groups-incomplete"]
    assert looks.held(lab)[("t", "g")] == 20, "from the one before"


@pytest.mark.further
def test_how_long_a_partition_is_quiet_goes_on_over_the_time_of_the_older_release(lab: Lab) -> None:
    _rolled_back_and_thinned(lab, Snapshot().topic("t", groups={"a": 60}))
    lab.write(Snapshot().topic("t", groups={"a": 60}))
    lab.analyze()
    (row,) = [r for r in lab.rows("last_writes") if r["topic"] == "t"]
    assert row["known_since"] == START + timedelta(minutes=1)
