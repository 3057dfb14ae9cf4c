"""`lowwater archives`: what lies there, whether it is whole, what goes and who may say so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from dashboard.archive.manifest import commits_sha256, part_file
from dashboard.archive.opened import open_archive
from dashboard.archive.place import Place
from dashboard.archive.sealing import Sealer
from dashboard.cli import context
from dashboard.core.clock import utc_now
from dashboard.core.errors import ArchiveError
from dashboard.domain.acts import Restoration
from dashboard.purge.journal.archive import archive
from dashboard.purge.journal.head import journal_in
from dashboard.purge.journal.journal import Journal, open_default
from dashboard.purge.journal.reads import JournalReads
from dashboard.purge.journal.rows import Options
from dashboard.purge.receipt.model import KeptRecords
from dashboard.settings.settings import load
from tests.support import archives
from tests.unit.cli.plans import a_plan
from tests.unit.cli.printed import answer

ROWS = {0: archives.records(100, first=7), 1: archives.records(9, step=3)}
KEY = Sealer(bytes(range(32)))


@pytest.fixture(autouse=True)
def right_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another clock tells what this host's does."""
    monkeypatch.setattr("dashboard.archive.proved_clock.proved_times", archives.proved_at(utc_now))


@pytest.fixture
def journal() -> Iterator[Journal]:
    made = open_default(load())
    yield made
    made.close()


@pytest.fixture
def run_id(journal: Journal) -> str:
    """A run that is queued."""
    plan = a_plan()
    made, _ = journal.insert(
        plan, token="click", mode="wait-all", who="ann", from_where="host",
        typed=plan.confirmation, options=Options(30_000, 500, 2, 0), connection={}, now=utc_now(),
    )  # fmt: skip
    return made


def closed(journal: Journal, run_id: str) -> None:
    for state in ("running", "done"):
        journal.set_run(run_id, state, utc_now())


def archived(alone: Path, run_id: str = archives.RUN_ID, **how: object) -> Path:
    return archives.write(alone / "kept", {"orders": ROWS}, run_id=run_id, **how)  # type: ignore[arg-type]


def test_each_archive_is_listed_with_its_ranges_its_weight_and_its_price(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = archived(alone, key=KEY)
    archives.write(alone / "kept", {"clicks": {0: []}}, run_id="second", state="incomplete")
    (alone / "lowwater.toml").write_text(
        f'[archive]\nurl = "{alone}/kept"\nkeep_for = "30d"\nper_gib_month = 1024\n'
    )
    value = answer(capsys, "archives")
    first, second = value["archives"]
    stored = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
    assert (first["state"], first["records"], first["size_bytes"]) == ("whole", 109, stored)
    assert (first["key_id"], first["topics"]) == (KEY.key_id, ["orders"])
    assert first["cost_per_month"] == stored / 2**20
    assert first["expires_at"] == "2026-12-27T12:00:00.000Z"
    assert first["partitions"][0] == {
        "topic": "orders", "partition": 0, "start": 7, "target": 107, "whole": True,
        "records": 100, "size_bytes": first["partitions"][0]["size_bytes"],
    }  # fmt: skip
    assert (second["state"], second["partitions"][0]["whole"]) == ("incomplete", False)
    assert value["size_bytes"] == stored
    (folder / "orders" / "1" / "partition.json").unlink()
    assert answer(capsys, "archives", "list", str(folder))["archives"][0]["state"] == "damaged"


def test_what_was_kept_and_is_gone_is_no_partition_that_was_never_purged(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three partitions one could not be kept; of the two that were purged one is lost."""
    folder = archives.write(alone / "kept", {"orders": {**ROWS, 2: []}}, state="incomplete")
    assert answer(capsys, "archives", "verify", "kept")["archives"][0]["ok"]
    with pytest.raises(ArchiveError, match="nothing commits partition 2"):
        open_archive(str(folder)).whole("orders", None)
    lost = folder / "orders" / "1" / "partition.json"
    lost.unlink()
    (found,) = answer(capsys, "archives", "list", "kept")["archives"]
    assert found["state"] == "damaged"
    (found,) = answer(capsys, "archives", "verify", "kept", exit_code=1)["archives"]
    assert found["problems"] == [f"kept/{lost.relative_to(alone / 'kept')} is not there any more"]
    with pytest.raises(ArchiveError) as gone:
        open_archive(str(folder)).whole("orders", None)
    assert gone.value.code == "ARCHIVE_PART_MISSING"


def test_who_forges_an_archive_is_told_apart_by_the_chain(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str
) -> None:
    """Whoever may write to the place may seal anew whatever he changed there."""
    folder = archived(alone, run_id)
    commits = [one for one in open_archive(str(folder)).partitions().values() if one is not None]
    kept = KeptRecords("kept", f"{archives.CLUSTER}/{run_id}", "proved", utc_now(), utc_now())
    journal.note_archive(run_id, kept, kind="kept", commits_sha256=commits_sha256(commits))
    journal.note_archive(run_id, replace(kept, state="failed"), kind="kept")
    assert answer(capsys, "archives", "verify", "kept")["archives"][0]["ok"]
    forged = {**ROWS, 1: archives.records(9, step=3, tag="forged")}
    archives.write(alone / "kept", {"orders": forged}, run_id=run_id)
    (found,) = answer(capsys, "archives", "verify", "kept", exit_code=1)["archives"]
    assert "the journal's chain" in found["problems"][0]
    journal.file.rows("UPDATE entries SET body='{' WHERE kind='kept'")
    (found,) = answer(capsys, "archives", "verify", "kept", exit_code=1)["archives"]
    assert "tells of its commits cannot be read" in found["problems"][0]


def test_one_that_cannot_be_read_hides_no_other(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archived(alone)
    broken = archived(alone, "broken") / "archive.json"
    broken.write_text(broken.read_text()[:-5])
    value = answer(capsys, "archives", "list", "kept", exit_code=1)
    assert [row.get("run_id") for row in value["archives"]] == [archives.RUN_ID, None]
    assert value["archives"][1]["error"]["code"] == "ARCHIVE_INVALID"
    changed = archived(alone, "changed") / "archive.json"
    changed.write_text(changed.read_text().replace('"whole"', '"open"'))
    value = answer(capsys, "archives", "list", "kept", exit_code=1)
    codes = [row.get("error", {}).get("code") for row in value["archives"]]
    assert codes == [None, "ARCHIVE_INVALID", "ARCHIVE_CHANGED"]
    checked = answer(capsys, "archives", "verify", "kept", exit_code=1)["archives"]
    assert [row["ok"] for row in checked] == [True, False, False]


def test_folders_by_no_name_of_an_archive_are_above_and_beside_it(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = alone / "my archives" / "kept"
    (top / "lost+found" / "x").mkdir(parents=True)
    folder = archives.write(top, {"orders": ROWS})
    (folder.parent / "to be sorted").mkdir()
    for where in (top, folder):
        (found,) = answer(capsys, "archives", "list", str(where))["archives"]
        assert (found["run_id"], found["records"]) == (archives.RUN_ID, 109)


def test_every_part_is_read_back(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = archived(alone, key=KEY)
    (alone / "key").write_text(KEY.key.hex())
    words = ("archives", "verify", str(folder))
    assert answer(capsys, *words, exit_code=1)["error"]["code"] == "ARCHIVE_KEY_MISSING"
    (alone / "lowwater.toml").write_text(f'[archive]\nkey_file = "{alone}/key"\n')
    (found,) = answer(capsys, *words)["archives"]
    assert (found["ok"], found["records"], found["parts"]) == (True, 109, 4)
    part, proof = (sorted(folder.glob(f"orders/0/part-*.{end}"))[1] for end in ("parquet", "json"))
    part.write_bytes(part.read_bytes()[:-1])
    proof.unlink()
    (folder / "orders" / "1" / "part-00000000000000000000-0a1b2c3d.parquet").unlink()
    (found,) = answer(capsys, *words, exit_code=1)["archives"]
    assert [problem.rpartition("/")[2] for problem in found["problems"]] == [
        f"{part.name} is damaged: its sha256 is not the one of its proof",
        "part-00000000000000000000-0a1b2c3d.parquet is not there",
    ]
    (alone / "key").write_text("00" * 32)
    assert answer(capsys, *words, exit_code=1)["error"]["code"] == "ARCHIVE_KEY_WRONG"


def test_an_archive_goes_by_its_sentence_once_its_run_is_closed(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str
) -> None:
    folder = archived(alone, run_id)
    words = ("archives", "delete", str(folder))
    assert answer(capsys, *words, exit_code=3)["error"]["code"] == "ARCHIVE_IN_USE"
    closed(journal, run_id)
    error = answer(capsys, *words, exit_code=1)["error"]
    assert error["code"] == "CONFIRMATION_REQUIRED"
    sentence = f"delete the archive of run {run_id} on prod"
    assert sentence in error["next"] and "109 records" in error["message"]
    assert answer(capsys, *words, "--confirm", "yes", exit_code=1)["error"] == error
    (gone,) = answer(capsys, *words, "--confirm", sentence)["deleted"]
    assert gone["records"] == 109
    assert [file for file in folder.rglob("*") if file.is_file()] == []
    begun, done = [e.body for e in journal.each_entry() if e.kind == "archive-deleted"]
    assert (begun["act"], done["act"], begun["typed"]) == ("begun", "done", sentence)
    assert (begun["run_id"], begun["records"], begun["url"]) == (run_id, 109, str(folder))
    assert journal.verify().ok
    assert answer(capsys, *words, exit_code=1)["error"]["code"] == "ARCHIVE_NOT_FOUND"


def test_a_deletion_that_died_is_finished_by_the_next(
    alone: Path,
    capsys: pytest.CaptureFixture[str],
    journal: Journal,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = archived(alone, run_id)
    proofs = folder / "orders" / "1"
    (proofs / "partition.json").unlink()  # as of a partition that was never whole
    unproved = proofs / part_file(ROWS[1][-1][0] + 1, "deadbeef")
    unproved.write_bytes(b"nobody proved it")
    closed(journal, run_id)
    sentence = f"delete the archive of run {run_id} on prod"
    words = ("archives", "delete", str(folder), "--confirm", sentence)
    remove, left = Place.remove, [5]

    def dies(place: Place, name: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise ArchiveError("the store is gone", "Wait.", code="ARCHIVE_UNWRITABLE")
        remove(place, name)

    monkeypatch.setattr(Place, "remove", dies)
    assert answer(capsys, *words, exit_code=1)["error"]["code"] == "ARCHIVE_UNWRITABLE"
    left[0] = 8
    assert answer(capsys, *words, exit_code=1)["error"]["code"] == "ARCHIVE_UNWRITABLE"
    left[0] = 1000
    answer(capsys, *words)
    assert [file for file in folder.rglob("*") if file.is_file()] == []
    acts = [e.body["act"] for e in journal.each_entry() if e.kind == "archive-deleted"]
    assert acts == ["begun", "begun", "begun", "done"]


def test_what_is_older_than_it_is_kept_expires(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str
) -> None:
    old, unknown = archived(alone, run_id), archived(alone, "of-another-machine")
    young = archived(alone, "young", created_at=utc_now() - timedelta(days=1))
    words = ("archives", "expire", "kept")
    assert answer(capsys, *words, exit_code=1)["error"]["code"] == "ARCHIVE_KEEP_UNSET"
    (alone / "lowwater.toml").write_text('[archive]\nkeep_for = "2d"\n')
    archives.write(
        alone / "kept", {"orders": ROWS}, run_id=run_id, created_at=utc_now() - timedelta(days=3)
    )
    archives.write(
        alone / "kept", {"orders": ROWS}, run_id="of-another-machine",
        created_at=utc_now() - timedelta(days=3),
    )  # fmt: skip
    value = answer(capsys, *words)
    assert value["deleted"] == []
    assert {row["error"]["code"] for row in value["kept"]} == {
        "ARCHIVE_IN_USE", "ARCHIVE_RUN_UNKNOWN",
    }  # fmt: skip
    closed(journal, run_id)
    assert [row["run_id"] for row in answer(capsys, *words)["deleted"]] == [run_id]
    assert not (old / "archive.json").exists()
    assert (young / "archive.json").exists() and (unknown / "archive.json").exists()
    told = [e.body for e in journal.each_entry() if e.kind == "archive-deleted"]
    assert [(body["act"], body["typed"]) for body in told] == [("begun", None), ("done", None)]


def test_an_archive_that_is_being_restored_does_not_expire(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str
) -> None:
    folder = archived(alone, run_id, created_at=utc_now() - timedelta(days=3))
    (alone / "lowwater.toml").write_text('[archive]\nkeep_for = "2d"\n')
    closed(journal, run_id)
    begun = Restoration(
        "begun", "c", run_id, str(folder), "orders", "c2", "orders-restored", 0, False, "ann", "x"
    )
    journal.tell_of_archive(begun, utc_now() - timedelta(days=6))
    journal.tell_of_archive(replace(begun, run_id="another"), utc_now())
    (kept,) = answer(capsys, "archives", "expire", "kept")["kept"]
    assert kept["error"]["code"] == "ARCHIVE_IN_USE"
    assert "into topic orders-restored of cluster c2" in kept["error"]["message"]
    assert (folder / "archive.json").exists()
    journal.tell_of_archive(replace(begun, act="done", records=109, whole=True), utc_now())
    assert [row["run_id"] for row in answer(capsys, "archives", "expire", "kept")["deleted"]] == [
        run_id
    ]


def test_a_run_that_was_moved_out_of_the_journal_is_closed(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str
) -> None:
    """`runs --archive` once a month, and archives of records that are kept for a year."""
    folder = archived(alone, run_id)
    closed(journal, run_id)
    for day in (1, 2):  # the second time the link that tells of the first is moved, too
        later = utc_now() + timedelta(days=day)
        archive(journal, alone / "old", before=later, who="ann", from_where="host", now=later)
    assert journal.runs() == []
    sentence = f"delete the archive of run {run_id} on prod"
    answer(capsys, "archives", "delete", str(folder), "--confirm", sentence)
    assert not folder.exists()


def moved_to_old(alone: Path, journal: Journal, run_id: str) -> datetime:
    """An archive whose run, closed, lies in another journal by now; when that was."""
    archived(alone, run_id)
    closed(journal, run_id)
    later = utc_now() + timedelta(days=1)
    archive(journal, alone / "old", before=later, who="ann", from_where="host", now=later)
    return later


def test_a_journal_that_was_moved_to_a_closed_folder_is_not_one_that_is_gone(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Whether the chain tells of these commits is then not known."""
    later = moved_to_old(alone, journal, run_id)
    assert answer(capsys, "archives", "verify", "kept")["archives"][0]["ok"]
    honest = context.lies_at

    def closed_to_us(path: Path) -> object:
        if alone / "old" in path.parents:
            raise PermissionError(13, "Permission denied")
        return honest(path)

    monkeypatch.setattr(context, "lies_at", closed_to_us)
    (found,) = answer(capsys, "archives", "verify", "kept", exit_code=1)["archives"]
    assert "cannot be told: Permission denied" in found["problems"][0]
    (alone / "lowwater.toml").write_text('[archive]\nkeep_for = "1d"\n')
    monkeypatch.setattr(
        "dashboard.archive.proved_clock.proved_times", archives.proved_at(lambda: later)
    )
    value = answer(capsys, "archives", "expire", "kept", exit_code=1)
    assert (value["deleted"], value["failed"]) == ([], []), "and the next ones are looked at"
    assert value["kept"][0]["error"]["code"] == "JOURNAL_FAILED"


def test_a_journal_that_was_moved_to_a_disk_that_is_not_mounted_is_missed(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Its mount point is an empty folder: the archive was called as it was proved, though nobody
    had asked the chain, and `expire` exited with 0 for ever.
    """
    later = moved_to_old(alone, journal, run_id)
    (alone / "old").rename(alone / "disk")
    (alone / "old").mkdir()
    (found,) = answer(capsys, "archives", "verify", "kept", exit_code=1)["archives"]
    assert f"is not there any more: {(alone / 'old').resolve()}" in found["problems"][0]
    (alone / "lowwater.toml").write_text('[archive]\nkeep_for = "1d"\n')
    monkeypatch.setattr(
        "dashboard.archive.proved_clock.proved_times", archives.proved_at(lambda: later)
    )
    value = answer(capsys, "archives", "expire", "kept", exit_code=1)
    assert (value["deleted"], value["kept"][0]["error"]["code"]) == ([], "JOURNAL_FAILED")


def test_a_run_that_is_younger_than_what_was_moved_away_is_in_none_of_it(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str
) -> None:
    """Another machine's, say; somebody has thrown the old journal away."""
    later = moved_to_old(alone, journal, run_id)
    rmtree(alone / "old")
    rmtree(alone / "kept")
    after = later + timedelta(seconds=1)
    archives.write(alone / "kept", {"orders": ROWS}, run_id="other", created_at=after)
    (found,) = answer(capsys, "archives", "verify", "kept")["archives"]
    assert found["ok"]
    folder, sentence = (
        str(next((alone / "kept").glob("*/other"))),
        "delete the archive of run other on prod",
    )
    error = answer(capsys, "archives", "delete", folder, "--confirm", sentence, exit_code=3)[
        "error"
    ]
    assert error["code"] == "ARCHIVE_RUN_UNKNOWN"


def test_each_journal_that_runs_were_moved_to_is_opened_once(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It tells of itself, and of those before it: ten folders were opened 500 times."""
    closed(journal, run_id)
    for day in (1, 2):
        later = utc_now() + timedelta(days=day)
        archive(journal, alone / "old", before=later, who="ann", from_where="host", now=later)
    archived(alone)
    opened: list[Path] = []
    honest = JournalReads.__init__

    def counted(self: JournalReads, path: Path, **how: Any) -> None:
        opened.append(path)
        honest(self, path, **how)

    monkeypatch.setattr(JournalReads, "__init__", counted)
    assert answer(capsys, "archives", "verify", "kept")["archives"][0]["ok"]
    assert opened == [journal.file.path, journal_in(alone / "old").resolve()]


def test_a_journal_that_cannot_be_opened_does_not_know_nothing(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal
) -> None:
    archived(alone)
    path = journal.file.path
    journal.close()
    for file in path.parent.glob(f"{path.name}*"):
        file.write_bytes(b"garbage" * 1000)
    (found,) = answer(capsys, "archives", "verify", "kept", exit_code=1)["archives"]
    assert "what the journal tells of its commits cannot be read" in found["problems"][0]


def test_a_state_folder_behind_a_link_to_nothing_is_not_one_without_a_journal(
    alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archived(alone)
    (alone / "link").symlink_to(alone / "volume" / "lowwater")
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(alone / "link"))
    (found,) = answer(capsys, "archives", "verify", "kept", exit_code=1)["archives"]
    assert "is a link to nothing" in found["problems"][0]


def test_a_run_is_looked_for_in_each_folder_though_one_is_closed(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    moved_to_old(alone, journal, run_id)
    honest, shut = context.lies_at, alone / "shut"

    def closed_to_us(path: Path) -> object:
        if shut in path.parents:
            raise PermissionError(13, "Permission denied")
        return honest(path)

    monkeypatch.setattr(context, "lies_at", closed_to_us)
    honest_moves = JournalReads.moved_to
    monkeypatch.setattr(
        JournalReads, "moved_to", lambda found: {shut: utc_now(), **honest_moves(found)}
    )
    assert answer(capsys, "archives", "verify", "kept")["archives"][0]["ok"]


def test_who_deletes_is_told_that_not_all_could_be_counted(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str
) -> None:
    """One damaged commit hid the records of all others: `0 records would be gone`."""
    folder = archived(alone, run_id)
    closed(journal, run_id)
    commit = folder / "orders" / "1" / "partition.json"
    commit.write_text(commit.read_text()[:-5])
    (row,) = answer(capsys, "archives", "list", "kept", exit_code=1)["archives"]
    assert (row["state"], row["records"], row["error"]["code"]) == (
        "damaged", 100, "ARCHIVE_INVALID",
    )  # fmt: skip
    error = answer(capsys, "archives", "delete", str(folder), exit_code=1)["error"]
    assert "at least 100 records" in error["message"]
    assert "of 1 of 2 partitions" in error["message"]
    (found,) = answer(capsys, "archives", "verify", "kept", exit_code=1)["archives"]
    assert found["parts"] == 3 and len(found["problems"]) == 1
    sentence = f"delete the archive of run {run_id} on prod"
    answer(capsys, "archives", "delete", str(folder), "--confirm", sentence)
    assert not folder.exists()


def test_a_deletion_leaves_no_record_behind(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str
) -> None:
    """A put that was killed leaves a temporary file, and a partition that retention passed while
    it was read is not in the manifest any more.
    """
    folder = archived(alone, run_id)
    closed(journal, run_id)
    part = next(folder.glob("orders/0/*.parquet"))
    part.with_name(f"{part.name}.4711.0a1b2c3d.tmp").write_bytes(part.read_bytes())
    (folder / "archive.json.4711.0a1b2c3d.tmp").write_bytes(b"{}")
    passed = folder / "orders" / "7"
    passed.mkdir()
    for file in (folder / "orders" / "0").glob("part-*"):
        (passed / file.name).write_bytes(file.read_bytes())
    sentence = f"delete the archive of run {run_id} on prod"
    answer(capsys, "archives", "delete", str(folder), "--confirm", sentence)
    assert not folder.exists()


def test_one_that_is_sealed_with_an_earlier_key_hides_no_damage_of_others(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archived(alone, "a-sealed", key=KEY)
    damaged = next(archived(alone, "b-open").rglob("*.parquet"))
    damaged.write_bytes(b"")
    found = answer(capsys, "archives", "verify", "kept", exit_code=1)["archives"]
    assert [row["ok"] for row in found] == [False, False]
    assert KEY.key_id in found[0]["problems"][0] and damaged.name in found[1]["problems"][0]


def test_one_that_cannot_be_deleted_keeps_no_other_from_expiring(
    alone: Path,
    capsys: pytest.CaptureFixture[str],
    journal: Journal,
    run_id: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed(journal, run_id)
    old = utc_now() - timedelta(days=3)
    stuck, last = (archived(alone, run_id, cluster_id=c, created_at=old) for c in ("a", "b"))
    (alone / "lowwater.toml").write_text('[archive]\nkeep_for = "2d"\n')
    remove = Place.remove

    def refused(place: Place, name: str) -> None:
        if name.startswith("a/"):
            raise ArchiveError("the store says no", "Ask it.", code="ARCHIVE_UNWRITABLE")
        remove(place, name)

    monkeypatch.setattr(Place, "remove", refused)
    value = answer(capsys, "archives", "expire", "kept", exit_code=1)
    assert [row["url"] for row in value["deleted"]] == [f"kept/b/{run_id}"]
    assert [(row["url"], row["error"]["code"]) for row in value["failed"]] == [
        (f"kept/a/{run_id}", "ARCHIVE_UNWRITABLE")
    ]
    assert (stuck / "archive.json").exists() and not (last / "archive.json").exists()


@pytest.mark.parametrize("damage", ["{", "of another part"])
def test_an_archive_with_a_damaged_proof_is_deleted_whole(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str, damage: str
) -> None:
    folder = archived(alone, run_id)
    closed(journal, run_id)
    first, second, _ = sorted((folder / "orders" / "0").glob("part-*.json"))
    (folder / "orders" / "0" / "partition.json").unlink()
    second.write_text(first.read_text() if damage != "{" else damage)
    sentence = f"delete the archive of run {run_id} on prod"
    answer(capsys, "archives", "delete", str(folder), "--confirm", sentence)
    assert [file for file in folder.rglob("*") if file.is_file()] == []


def test_nothing_is_deleted_while_purges_are_switched_off(
    alone: Path, capsys: pytest.CaptureFixture[str], journal: Journal, run_id: str
) -> None:
    folder = archived(alone, run_id)
    closed(journal, run_id)
    sentence = f"delete the archive of run {run_id} on prod"
    words = ("archives", "delete", str(folder), "--confirm", sentence)
    journal.set_read_only(True, "ann", utc_now())
    assert answer(capsys, *words, exit_code=3)["error"]["code"] == "READ_ONLY"
    journal.set_read_only(False, "ann", utc_now())
    (alone / "lowwater.toml").write_text('operator = "bob"\n[people]\nviewers = ["*"]\n')
    assert answer(capsys, *words, exit_code=3)["error"]["code"] == "ROLE_TOO_LOW"
    assert (folder / "archive.json").exists()


def test_no_archive_named_and_none_there(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "archives", exit_code=1)["error"]["code"] == "ARCHIVE_NOT_NAMED"
    assert answer(capsys, "archives", "list", "nothing")["archives"] == []
    words = ("archives", "delete", "nothing/at/all")
    assert answer(capsys, *words, exit_code=1)["error"]["code"] == "ARCHIVE_NOT_FOUND"
