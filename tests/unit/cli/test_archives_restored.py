"""`lowwater archives expire` keeps what a restore may still need, wherever it is told of."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.canonical import written
from dashboard.core.clock import utc_now
from dashboard.domain.acts import Act, Restoration
from dashboard.purge.journal.archive import archive
from dashboard.purge.journal.journal import Journal, open_default
from dashboard.purge.journal.links import append
from dashboard.purge.journal.rows import Options
from dashboard.settings.settings import load
from tests.support import archives
from tests.unit.archive.test_restore import Memory
from tests.unit.cli.plans import a_plan
from tests.unit.cli.printed import answer

Only = tuple[int, ...] | None


def ago(days: int) -> datetime:
    return utc_now() - timedelta(days=days)


@dataclass
class Scene:
    """A run that was closed 20 days ago, and its archive, which is older than it is kept."""

    journal: Journal
    run_id: str
    folder: Path
    capsys: pytest.CaptureFixture[str]

    def restored(self, act: Act, only: Only = None, *, days_ago: int = 0) -> None:
        """The chain is told of a restore."""
        told = Restoration(
            act, "c", self.run_id, "kept", "orders", "c2", "new", 0, act == "done", "ann", "x",
            only,
        )  # fmt: skip
        self.journal.tell_of_archive(told, ago(days_ago))

    def moved(self, folder: str, older_than: int) -> Path:
        archive(
            self.journal, Path(folder), before=ago(older_than), who="ann", from_where="host",
            now=utc_now(),
        )  # fmt: skip
        return Path(folder)

    def kept(self) -> str | None:
        """Why the archive does not expire; None: it is deleted."""
        value = answer(self.capsys, "archives", "expire", "kept")
        assert len(value["deleted"]) + len(value["kept"]) == 1
        assert (self.folder / "archive.json").exists() == bool(value["kept"])
        for one in value["kept"]:
            assert one["error"]["code"] == "ARCHIVE_IN_USE"
            return str(one["error"]["message"])
        return None


@pytest.fixture(autouse=True)
def right_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another clock tells what this host's does."""
    monkeypatch.setattr("dashboard.archive.proved_clock.proved_times", archives.proved_at(utc_now))


@pytest.fixture
def scene(alone: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Scene]:
    (alone / "lowwater.toml").write_text('[archive]\nkeep_for = "2d"\n')
    journal, plan = open_default(load()), a_plan(hours_ago=20 * 24)
    other = Restoration("done", "c", "other", "kept", "o", "c2", "n", 1, True, "ann", "x")
    journal.tell_of_archive(other, ago(30))
    run_id, _ = journal.insert(
        plan, token="click", mode="wait-all", who="ann", from_where="host",
        typed=plan.confirmation, options=Options(30_000, 500, 2, 0), connection={}, now=ago(20),
    )  # fmt: skip
    for state in ("running", "done"):
        journal.set_run(run_id, state, ago(20))
    rows = {0: archives.records(100, first=7), 1: archives.records(9, step=3)}
    folder = archives.write(alone / "kept", {"orders": rows}, run_id=run_id, created_at=ago(3))
    yield Scene(journal, run_id, folder, capsys)
    journal.close()


@pytest.mark.parametrize(
    ("told", "gone"),
    [
        ([("begun", None), ("begun", (0,)), ("done", (0,))], False),
        ([("begun", None), ("begun", (0,)), ("done", (0,)), ("done", None)], True),
        ([("begun", (0,)), ("done", (0,))], True),
        ([("begun", (0,))], False),
        ([("begun", (0, 1)), ("begun", (1,)), ("done", (1,))], False),
        ([("begun", (1,)), ("begun", (0, 1)), ("done", (0, 1))], True),
        ([("begun", (0,)), ("begun", None), ("done", None)], True),
    ],
)
def test_a_restore_of_some_partitions_ends_none_of_more(
    scene: Scene, told: list[tuple[Act, Only]], gone: bool
) -> None:
    for act, only in told:
        scene.restored(act, only)
    assert (scene.kept() is None) == gone


def test_the_command_tells_the_chain_which_partitions_it_restored(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore that was killed, and `--partitions 0` after it."""
    cluster = Memory()
    monkeypatch.setattr("dashboard.cluster.live.connect", lambda *_: nullcontext(cluster))
    monkeypatch.setattr(
        "dashboard.cluster.produce.RecordClient", lambda *_, **__: nullcontext(cluster)
    )
    words = ("restore", str(scene.folder), "--to-topic", "new", "--bootstrap-server", "b:9092")
    cluster.dies_after = 50
    answer(scene.capsys, *words, exit_code=4)
    cluster.dies_after = None
    assert answer(scene.capsys, *words, "--partitions", "0")["state"] == "restored"
    assert "into topic new" in str(scene.kept())
    assert answer(scene.capsys, *words)["records"] == 109
    assert scene.kept() is None


def test_an_earlier_release_told_of_some_partitions_as_of_all(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(
            "dashboard.purge.journal.wishes.written",
            lambda one: {k: v for k, v in written(one).items() if k != "only_partitions"},
        )
        scene.restored("begun")
        scene.restored("done")
    assert scene.kept(), "nobody knows of which partitions that was"
    scene.restored("done")
    assert scene.kept() is None


@pytest.mark.parametrize("folders", [("old", "old"), ("old", "older")])
def test_a_restore_of_which_the_chain_told_in_a_moved_part_is_not_done(
    scene: Scene, folders: tuple[str, str]
) -> None:
    """`runs --archive old --older-than 1d` of a restore that began three days ago."""
    scene.restored("begun", days_ago=3)
    scene.moved(folders[0], 1)
    scene.moved(folders[1], 0)  # the link that tells of the first, too
    assert {e.kind for e in scene.journal.each_entry()} == {"archived"}
    assert "into topic new of cluster c2" in str(scene.kept())
    asked = answer(scene.capsys, "archives", "delete", str(scene.folder), exit_code=1)["error"]
    assert "being restored into topic new" in asked["message"], "whoever may type it is warned"
    scene.restored("done")
    assert scene.kept() is None


def test_what_was_moved_to_where_nobody_can_read_it_keeps_the_archive(scene: Scene) -> None:
    scene.restored("begun", days_ago=3)
    old = scene.moved("old", 10)
    away = scene.moved("away", 1).rename("elsewhere")
    assert f"moved to {Path('away').resolve()}" in str(scene.kept())
    assert not Path("away").exists()
    other = Journal(Path("away") / "journal.sqlite")
    other.set_read_only(True, "ann", utc_now())
    other.close()
    assert f"moved to {Path('away').resolve()}" in str(scene.kept()), "it is another journal"
    Path("away").rename("another")
    away.rename("away")
    assert "into topic new" in str(scene.kept())
    scene.restored("done")
    assert old.exists() and scene.kept() is None


def test_what_was_moved_and_is_damaged_there_keeps_the_archive(scene: Scene) -> None:
    scene.restored("begun", days_ago=3)
    with closing(sqlite3.connect(scene.moved("old", 1) / "journal.sqlite")) as db:
        db.execute("UPDATE entries SET body='{' WHERE kind=?", (Restoration.kind,))
        db.commit()
    assert "cannot be read there" in str(scene.kept())


@pytest.mark.parametrize("earlier", [False, True])
def test_what_was_moved_and_is_older_than_any_restore_takes_keeps_nothing(
    scene: Scene, earlier: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the link says so: those of earlier releases do not."""

    def bare(db: Any, run_id: str | None, kind: str, body: dict[str, Any], now: datetime) -> None:
        append(db, run_id, kind, {k: v for k, v in body.items() if k != "before"}, now)

    if earlier:
        monkeypatch.setattr("dashboard.purge.journal.archive.append", bare)
    scene.moved("old", 25).rename("tape")
    assert scene.journal.has_run(scene.run_id) and scene.journal.first_entry() > 1
    assert (scene.kept() is None) == (not earlier)
