"""Archives read back by name: which run, which part, and what is said of one that is not there."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dashboard.archive.deleting import delete
from dashboard.archive.manifest import PARTITION, sealed
from dashboard.archive.opened import open_archive
from dashboard.archive.sealing import Sealer
from dashboard.archive.summary import Summary, summaries, summary
from dashboard.cluster.produce import rows_of
from dashboard.core.errors import ArchiveError, RefusedError
from dashboard.domain.model import TopicPartition
from tests.support import archives

ROWS = archives.records(100, first=7, step=2)
KEY = TopicPartition("orders", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return archives.write(tmp_path / "kept", {"orders": {0: ROWS}, "clicks": {0: ROWS[:5]}})


@pytest.mark.parametrize("ending", ["", "/", "/archive.json"])
def test_a_run_is_named_by_its_folder_or_its_manifest(folder: Path, ending: str) -> None:
    archive = open_archive(f"{folder}{ending}")
    assert (archive.run.run_id, archive.url) == (archives.RUN_ID, str(folder))
    whole = archive.partition(KEY)
    assert whole is not None
    batches = [batch for part in whole.parts for batch in archive.batches(KEY, part)]
    offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
    assert list(zip(offsets, (row for b in batches for row in rows_of(b)), strict=True)) == ROWS
    assert archive.wrong(KEY, whole) == []


def test_a_relative_path_is_the_working_directorys(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    assert open_archive(folder.name).url == str(folder)


def test_one_of_several_topics_is_chosen(folder: Path) -> None:
    archive = open_archive(str(folder))
    assert archive.topic("clicks").topic == "clicks"
    for name, said in ((None, "holds several topics"), ("x", "has no topic 'x'")):
        with pytest.raises(ArchiveError, match=said) as unknown:
            archive.topic(name)
        assert unknown.value.code == "ARCHIVE_TOPIC_UNKNOWN"
        assert "clicks, orders" in unknown.value.next_step


def test_what_is_missing_or_changed_is_named(folder: Path) -> None:
    archive = open_archive(str(folder))
    whole = archive.partition(KEY)
    assert whole is not None
    first, second, *_ = sorted((folder / "orders" / "0").glob("*.parquet"))
    second.write_bytes(first.read_bytes())
    with pytest.raises(ArchiveError, match=second.name) as other:
        list(archive.batches(KEY, whole.parts[1]))
    assert other.value.code == "ARCHIVE_PART_UNREADABLE"
    first.unlink()
    with pytest.raises(ArchiveError, match=first.name) as missing:
        list(archive.batches(KEY, whole.parts[0]))
    assert missing.value.code == "ARCHIVE_PART_MISSING"
    commit = folder / "orders" / "0" / "partition.json"
    commit.write_text(commit.read_text().replace('"target":', '"target":1'))
    with pytest.raises(RefusedError) as changed:
        archive.partition(KEY)
    assert changed.value.code == "ARCHIVE_CHANGED"


@pytest.mark.parametrize("other", ["the topic", "the partition", "the range", "the topic id"])
def test_anothers_commit_is_refused(folder: Path, other: str) -> None:
    of, at, rows = "orders", 0, ROWS
    if other == "the topic":
        of = "clicks"
    elif other == "the partition":
        at = 1
    elif other == "the range":
        rows = ROWS[:-1]
    lies = archives.write(folder.parent / "other", {of: {at: rows}})
    (commit,) = lies.glob("*/*/partition.json")
    if other == "the topic id":
        found = open_archive(str(lies)).partition(KEY)
        assert found is not None
        commit.write_bytes(sealed(PARTITION, replace(found, topic_id="made-anew")))
    commit.rename(folder / "orders" / "0" / "partition.json")
    archive = open_archive(str(folder))
    with pytest.raises(ArchiveError, match=r"partition\.json is of"):
        archive.partition(KEY)
    assert summary(archive).state == "damaged"


def test_a_manifest_in_another_runs_folder_is_refused(folder: Path) -> None:
    moved = folder.rename(folder.with_name("another-run"))
    with pytest.raises(ArchiveError, match=f"is of run {archives.RUN_ID}"):
        open_archive(str(moved))


def test_sealed_parts_open_with_their_key_alone(tmp_path: Path) -> None:
    key = Sealer(bytes(range(32)))
    folder = archives.write(tmp_path / "kept", {"orders": {0: ROWS}}, key=key)
    file = tmp_path / "key"
    file.write_text(key.key.hex())
    archive = open_archive(str(folder), file)
    whole = archive.partition(KEY)
    assert whole is not None and archive.wrong(KEY, whole) == []
    with pytest.raises(ArchiveError) as missing:
        open_archive(str(folder))
    assert missing.value.code == "ARCHIVE_KEY_MISSING"
    unopened = open_archive(str(folder), sealed=False)
    with pytest.raises(ArchiveError, match=key.key_id):
        list(unopened.batches(KEY, whole.parts[0]))


class _Bucket(MemoryFileSystem):  # type: ignore[misc]
    protocol = ("bucket", "memory")


def test_an_object_store_is_read_and_emptied_by_names(tmp_path: Path) -> None:
    fsspec.register_implementation("bucket", _Bucket, clobber=True)
    url = f"bucket://{tmp_path.name}/kept"
    archives.write(url, {"orders": {0: ROWS}, "clicks": {0: ROWS[:5]}})
    (found,) = [one for one in summaries(url) if isinstance(one, Summary)]
    assert (found.state, found.records) == ("whole", 105)
    # As Spark's tasks get it.
    archive = pickle.loads(
        pickle.dumps(open_archive(f"{url}/{archives.CLUSTER}/{archives.RUN_ID}"))
    )
    whole = archive.partition(KEY)
    assert archive.wrong(KEY, whole) == []
    told: list[object] = []
    chain = SimpleNamespace(tell_of_archive=lambda said, _now: told.append(said.act))
    delete(found, chain, lambda: archives.CREATED, who="ann", typed=None, from_where="here")
    assert told == ["begun", "done"]
    assert list(summaries(url)) == []
    assert archive.partition(KEY) is None
    with pytest.raises(ArchiveError) as gone:
        list(archive.batches(KEY, whole.parts[0]))
    assert gone.value.code == "ARCHIVE_PART_MISSING"
