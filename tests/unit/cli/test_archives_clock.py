"""`lowwater archives expire` deletes nothing by a clock that no other one proves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dashboard.archive.place import Place
from dashboard.core.clock import utc_now
from dashboard.core.errors import ArchiveError, ClusterError
from dashboard.purge.journal.journal import open_default
from dashboard.purge.journal.rows import Options
from dashboard.settings.settings import load
from dashboard.store.snapshots import ClusterStore, Store
from tests.support import archives
from tests.support.cluster import FakeCluster
from tests.unit.cli.plans import a_plan
from tests.unit.cli.printed import answer

AHEAD = timedelta(days=400)


class Scene:
    """A closed run's archive of a day ago, which is kept for a year; clusters by their ids."""

    def __init__(self, where: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys, self.where = capsys, where
        self.clusters: dict[str, FakeCluster] = {}
        self.asked: list[str] = []
        self.run_id = self.archive(archives.CLUSTER)

    def archive(self, cluster_id: str, hours_ago: int = 0) -> str:
        """The id of the run."""
        plan = a_plan(hours_ago=hours_ago)
        journal = open_default(load())
        run_id, _ = journal.insert(
            plan, token=cluster_id, mode="wait-all", who="ann", from_where="host",
            typed=plan.confirmation, options=Options(30_000, 500, 2, 0), connection={},
            now=utc_now(),
        )  # fmt: skip
        for state in ("running", "done"):
            journal.set_run(run_id, state, utc_now())
        journal.close()
        archives.write(
            self.where, {"orders": {0: archives.records(9)}}, run_id=run_id,
            cluster_id=cluster_id, created_at=utc_now() - timedelta(days=1),
        )  # fmt: skip
        return run_id

    def knows(self, cluster_id: str, told: datetime | ClusterError | None) -> None:
        """A cluster of the data folder whose controller tells this time."""
        self.clusters[cluster_id] = FakeCluster()
        self.clusters[cluster_id].controller_at = told
        ClusterStore(Store("data"), cluster_id).write_connection("b:9092", None, cluster_id)

    def connect(self, *_: object, cluster_id: str) -> AbstractContextManager[FakeCluster]:
        self.asked.append(cluster_id)
        return self.clusters[cluster_id]

    def expire(self, exit_code: int) -> dict[str, Any]:
        return answer(self.capsys, "archives", "expire", self.where, exit_code=exit_code)

    def kept(self) -> str:
        """Why nothing is deleted."""
        value = self.expire(1)
        assert (value["deleted"], len(value["kept"])) == ([], 1)
        assert value["kept"][0]["error"]["code"] == "CLOCK_UNPROVED"
        assert Place(self.where).names(f"{archives.CLUSTER}/{self.run_id}")
        return str(value["kept"][0]["error"]["message"])


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[timedelta]]:
    """By how much this host's clock is ahead, look by look; the last counts on."""
    by = [AHEAD]

    def now() -> datetime:
        return utc_now() + (by.pop(0) if len(by) > 1 else by[0])

    for user in ("dashboard.cli.purge.archives", "dashboard.archive.proved_clock"):
        monkeypatch.setattr(f"{user}.utc_now", now)
    yield by


@pytest.fixture
def scene(
    alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Scene:
    (alone / "lowwater.toml").write_text('data = "data"\n[archive]\nkeep_for = "365d"\n')
    made = Scene(str(alone / "kept"), capsys)
    monkeypatch.setattr("dashboard.cluster.live.connect", made.connect)
    return made


def test_by_a_clock_that_is_wrong_nothing_expires(scene: Scene, host: list[timedelta]) -> None:
    """A machine was resumed, or has no NTP, and its timer fires."""
    scene.knows("another", utc_now())
    scene.knows(archives.CLUSTER, utc_now())
    assert "34560000 s ahead of the controller of cluster" in scene.kept()
    assert scene.asked == [archives.CLUSTER]


def test_no_other_clusters_clock_counts(scene: Scene, host: list[timedelta]) -> None:
    """One on this very machine, which was resumed and reaches nobody else, tells what it tells."""
    scene.knows("another", utc_now() + AHEAD)
    assert "the controller of cluster" in scene.kept() and scene.asked == []
    scene.knows(archives.CLUSTER, None)
    assert f"cluster {archives.CLUSTER} tells none" in scene.kept()
    lost = ClusterError("its brokers are gone", "Start them.", code="CLUSTER_UNREACHABLE")
    scene.knows(archives.CLUSTER, lost)
    assert "its brokers are gone" in scene.kept()
    scene.knows(archives.CLUSTER, utc_now() + AHEAD)
    assert [row["run_id"] for row in scene.expire(0)["deleted"]] == [scene.run_id]


def test_an_archive_goes_by_the_clock_of_its_own_cluster_alone(
    scene: Scene, host: list[timedelta]
) -> None:
    """Where archives of two clusters lie in one place, and one of them is far away."""
    stage = scene.archive("stage", 1)
    scene.knows("stage", utc_now() + AHEAD)
    value = scene.expire(1)
    assert [row["run_id"] for row in value["deleted"]] == [stage]
    assert [archives.CLUSTER in row["url"] for row in value["kept"]] == [True]
    assert value["kept"][0]["error"]["code"] == "CLOCK_UNPROVED"


def test_where_nobody_tells_the_time_nothing_expires(scene: Scene, host: list[timedelta]) -> None:
    assert "no other clock tells whether this host's is right (the controller of" in scene.kept()
    assert answer(scene.capsys, "archives", "list", scene.where)["archives"]
    host[:] = [timedelta(0)]
    assert scene.expire(0) == {"deleted": [], "kept": [], "failed": []}, "nobody is asked"


def test_a_clock_that_is_set_right_meanwhile_finds_nothing_old(
    scene: Scene, host: list[timedelta]
) -> None:
    scene.knows(archives.CLUSTER, utc_now())
    host[:] = [AHEAD, timedelta(0)]
    assert scene.expire(0)["deleted"] == []


class Dated(MemoryFileSystem):  # type: ignore[misc]
    """An object store with a clock of its own."""

    protocol = ("dated", "memory")
    ahead: timedelta | None = timedelta(0)

    def info(self, path: str, **more: Any) -> dict[str, Any]:
        found = dict(super().info(path, **more))
        at = None if self.ahead is None else datetime.now(UTC) + self.ahead
        return found if at is None else {**found, "LastModified": at}


def test_an_object_store_tells_the_time_where_no_controller_does(
    alone: Path, scene: Scene, host: list[timedelta], monkeypatch: pytest.MonkeyPatch
) -> None:
    fsspec.register_implementation("dated", Dated, clobber=True)
    scene = Scene(f"dated://{alone.name}/kept", scene.capsys)
    assert "ahead of the object store dated://" in scene.kept()
    monkeypatch.setattr(Dated, "ahead", None)
    assert "the object store dated://" in scene.kept()
    with monkeypatch.context() as refused:

        def put(*_: object) -> None:
            raise ArchiveError("no right to put", "Grant it.", code="ARCHIVE_UNWRITABLE")

        refused.setattr(Place, "put", put)
        assert "no right to put" in scene.kept()
    monkeypatch.setattr(Dated, "ahead", AHEAD)
    assert [row["run_id"] for row in scene.expire(0)["deleted"]] == [scene.run_id]
    assert Place(scene.where).names() == [], "the file that was dated is gone"
    assert Place(str(alone)).told_time() is None, "a folder's files are dated by this host"
