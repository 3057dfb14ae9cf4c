"""The week that a demo makes up before itself: like its workload, marked, and beside the data."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow.compute as pc
import pytest

from dashboard.core.demo_faults import RECORDED
from dashboard.demo import children, recorded
from dashboard.store.snapshots import ClusterStore, Store
from tests.support import sample_store

ROOT = Path(__file__).parents[3]


def folders(store: ClusterStore) -> list[list[tuple[str, bool]]]:
    return [store.folders("snapshots"), store.folders("findings")]


def used(store: ClusterStore, snapshot_id: str) -> int:
    disks = store.read("snapshots", snapshot_id, "log_dirs")
    total, usable = pc.sum(disks["total_bytes"]).as_py(), pc.sum(disks["usable_bytes"]).as_py()
    return int(total - usable)


@pytest.mark.further
def test_each_hour_of_the_week_before_is_written_once_marked_and_beside_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "_STEADY", frozenset({"orders"}))
    newest = sample_store.write(tmp_path / "data")
    before = folders(newest)
    into = ClusterStore(Store(str(tmp_path / "room" / RECORDED)), newest.cluster_id)

    assert recorded.write(newest, into, lambda: False) == recorded.HOURS
    assert folders(newest) == before, "no analysis, guard or plan looks elsewhere"
    assert newest.store.clusters() == [newest.cluster_id]

    now = newest.manifest("snapshots", newest.latest_snapshot())
    ids = into.ids("snapshots")
    times = [into.manifest("snapshots", i).taken_at for i in ids]
    assert len(into.ids("findings")) == len(ids) == 7 * 24
    assert times == [now.taken_at - timedelta(hours=h) for h in range(7 * 24, 0, -1)]
    assert all(into.manifest("snapshots", i).details == {"recorded": True} for i in ids)

    of_then = into.read("snapshots", ids[-1], "replicas")
    of_now = newest.read("snapshots", now.id, "replicas")
    changed = pc.sum(pc.not_equal(of_then["size_bytes"], of_now["size_bytes"])).as_py()
    topics = newest.read("snapshots", now.id, "topics")
    (orders,) = topics.filter(pc.equal(topics["topic"], "orders"))["topic_no"].to_pylist()
    assert changed == pc.sum(pc.equal(of_now["topic_no"], orders)).as_py() > 0
    # A disk's bytes are those of its replicas, and what else was there.
    less = pc.sum(of_now["size_bytes"]).as_py() - pc.sum(of_then["size_bytes"]).as_py()
    assert used(newest, now.id) - used(into, ids[-1]) == less
    assert used(into, ids[0]) < used(newest, now.id)


def test_a_week_grows_by_day_more_than_by_night_and_ends_where_the_demo_begins() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    week = [recorded.share(timedelta(hours=hours), noon) for hours in range(7 * 24 + 1)]
    assert week[0] == 1.0 and all(0.4 < share < 1.6 for share in week)
    assert abs(week[1] - week[0]) < 0.05
    assert week[7 * 24] < week[24] * 0.7
    steps = [abs(later - earlier) for earlier, later in pairwise(week)]
    assert max(steps) > 5 * min(steps)


def test_it_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    newest = sample_store.write(tmp_path / "data")
    into = ClusterStore(Store(str(tmp_path / "before")), newest.cluster_id)
    asked = iter([False, False, True])
    assert recorded.write(newest, into, lambda: next(asked)) == 2
    assert len(into.ids("snapshots")) == 2


def test_only_charts_and_who_writes_it_know_where_it_lies() -> None:
    files = [*ROOT.glob("dashboard/**/*.py"), *ROOT.glob("analytics/**/*.py")]
    word = re.compile(r"\bRECORDED\b")
    known = {path.name for path in files if word.search(path.read_text("utf-8"))}
    # The folder's name, the charts, and what the demo starts to write it.
    assert known == {"demo_faults.py", "over_time.py", "children.py"}


def test_the_demo_writes_it_into_its_room_and_not_into_its_data(tmp_path: Path) -> None:
    place = children.Place(tmp_path, str(tmp_path / "data"), tmp_path / "lowwater.toml", 8501)
    *_, data, cluster_id, into = children.recorded(place, "abc")
    assert (data, cluster_id) == (str(tmp_path / "data"), "abc")
    assert Path(into).parent == tmp_path
