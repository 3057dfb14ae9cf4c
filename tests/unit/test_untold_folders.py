"""A folder of the store that nobody can look into costs itself: no watch and no scrape."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.collect import watch
from dashboard.core.clock import utc_now
from dashboard.core.errors import StoreError
from dashboard.exporter.own_reading import Reader
from dashboard.store import attempts
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.fake_live import FakeLive

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
FAULTS = [errno.EACCES, errno.ESTALE, errno.EIO]
Refuse = Callable[[Path, int], None]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """What lies in a folder has this error from now on; the folder itself is listed as before."""

    def told(folder: Path, number: int) -> None:
        for name in ("stat", "open", "read_bytes"):
            honest = getattr(Path, name)

            def asked(self: Path, *args: Any, honest: Any = honest, **options: Any) -> Any:
                if folder in self.parents:
                    raise OSError(number, os.strerror(number), str(self))
                return honest(self, *args, **options)

            monkeypatch.setattr(Path, name, asked)

    return told


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


def snapshot(store: Store, at: datetime = NOW) -> str:
    writer = ClusterStore(store, "fake").begin("snapshots", at)
    return writer.commit(1.0, {"errors": []}).id


@pytest.mark.parametrize("root", ["{}", "file://{}"])
def test_a_folder_that_nobody_may_look_into_hides_no_cluster(
    tmp_path: Path, refuse: Refuse, root: str
) -> None:
    """Where a disk is mounted root keeps a `lost+found` that is closed to everybody else."""
    store = Store(root.format(tmp_path))
    (tmp_path / "lost+found").mkdir()
    refuse(tmp_path / "lost+found", errno.EACCES)
    assert (store.begun(), attempts.first(store)) == ([], None)
    with pytest.raises(StoreError, match=r"may be seen here \(not lost\+found\)") as none:
        store.cluster()
    assert none.value.code == "NO_SNAPSHOT"
    snapshot(store)
    assert (store.clusters(), store.cluster().cluster_id) == (["fake"], "fake")


def test_a_folder_of_which_the_disk_does_not_tell_is_named(
    store: Store, tmp_path: Path, refuse: Refuse
) -> None:
    snapshot(store)
    refuse(tmp_path / "fake", errno.EIO)
    for asked in (store.clusters, store.begun, store.cluster):
        with pytest.raises(StoreError, match="fake cannot be read") as caught:
            asked()
        assert caught.value.code == "STORE_UNREADABLE"


@pytest.mark.parametrize("number", FAULTS)
def test_a_snapshot_that_nobody_can_look_into_is_named_like_a_damaged_one(
    store: Store, tmp_path: Path, refuse: Refuse, number: int
) -> None:
    cluster = ClusterStore(store, "fake")
    untold, half = snapshot(store), cluster.begin("snapshots", NOW + timedelta(hours=1))
    Path(half.path).mkdir()
    notes = tmp_path / "fake" / "snapshots" / "notes"
    notes.mkdir()
    refuse(notes, number)
    refuse(tmp_path / "fake" / "snapshots" / untold, number)
    assert cluster.folders("snapshots") == [(untold, True), (half.id, False), ("notes", False)]
    assert cluster.latest_snapshot() == untold
    for asked in (cluster.manifest, lambda *of: cluster.read(*of, "brokers")):
        with pytest.raises(StoreError, match="manifest") as caught:
            asked("snapshots", untold)
        assert caught.value.code == "STORE_UNREADABLE"
    assert cluster.begin("snapshots", NOW - timedelta(days=1)).id > untold, "who goes on reads it"


@pytest.mark.parametrize("number", FAULTS)
def test_watch_and_scrapes_go_on_beside_a_snapshot_that_nobody_can_look_into(
    store: Store, tmp_path: Path, refuse: Refuse, number: int
) -> None:
    untold = snapshot(store)
    refuse(tmp_path / "fake" / "snapshots" / untold, number)
    reader = Reader(ClusterStore(store, "fake"), lambda: None)
    assert reader.read().unreadable == ("snapshot",)
    events: list[dict[str, Any]] = []
    watch.run(
        FakeLive,  # type: ignore[arg-type]
        store, every=timedelta(seconds=0.05), now=utc_now, rounds=2, analysis=None,
        emit=events.append,
    )  # fmt: skip
    assert [event["event"] for event in events] == ["snapshot", "snapshot"]
    found = reader.read()
    assert found.unreadable == ()
    assert found.snapshot is not None
    assert found.snapshot.id == events[-1]["snapshot_id"]


def test_an_analysis_that_nobody_can_look_into_is_passed_over(
    store: Store, tmp_path: Path, refuse: Refuse
) -> None:
    cluster = ClusterStore(store, "fake")
    shown, untold = (
        cluster.begin("findings", NOW + timedelta(hours=h)).commit(1.0, {"snapshot_id": of}).id
        for h, of in enumerate((snapshot(store), snapshot(store)))
    )
    cluster.set_latest(shown)
    refuse(tmp_path / "fake" / "findings" / untold, errno.EACCES)
    assert (cluster.latest("findings"), cluster.ids("findings")) == (shown, [shown, untold])


def test_a_cluster_that_is_closed_makes_no_other_the_only_one(
    store: Store, tmp_path: Path, refuse: Refuse
) -> None:
    """Who names none and deletes would purge the one that is left to be seen."""
    for cluster_id in ("prod", "stag"):
        ClusterStore(store, cluster_id).write_connection("k:1", None, None)
    (tmp_path / "lost+found").mkdir()
    refuse(tmp_path / "lost+found", errno.EACCES)
    refuse(tmp_path / "prod", errno.EACCES)
    with pytest.raises(StoreError, match=r"stag \(stag\).*prod, which may not") as error:
        store.cluster()
    assert error.value.code == "CLUSTER_AMBIGUOUS"
    assert store.cluster("stag").cluster_id == "stag"
    with pytest.raises(StoreError, match="prod, which may not be seen") as error:
        store.cluster("prod")
    assert error.value.code == "CLUSTER_NOT_FOUND"
