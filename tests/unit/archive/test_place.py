"""Where an archive lies: whole files by name, what may pass is tried again, the rest is named."""

from __future__ import annotations

import errno
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dashboard.archive.place import Place
from dashboard.core.errors import ArchiveError, SettingsError
from dashboard.settings.archive import ArchiveSettings, archive_settings, check_url, chosen


class Flaky(MemoryFileSystem):  # type: ignore[misc]
    """A store that fails as often as `failures` has errors."""

    protocol = ("flaky", "memory")
    cachable = False
    failures: list[Exception] = []  # noqa: RUF012  # one store for all of a test

    def _turn(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def cat_file(self, path: str, **options: Any) -> Any:
        self._turn()
        return super().cat_file(path, **options)

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        super().pipe_file(path, value, **options)
        self._turn()  # done, and the answer is lost: a second put is the same


@pytest.fixture
def flaky(monkeypatch: pytest.MonkeyPatch) -> tuple[Place, list[float], list[Exception]]:
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    failures: list[Exception] = []
    monkeypatch.setattr(Flaky, "failures", failures)
    pauses: list[float] = []
    return Place("flaky://bucket/deep", pauses.append), pauses, failures


def test_a_folder_keeps_whole_files(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    place = Place(f"{tmp_path}/kept")
    assert place.get("c/r/archive.json") is None
    place.put("c/r/archive.json", b"one")
    place.put("c/r/archive.json", b"two")
    assert place.get("c/r/archive.json") == b"two"
    assert (place.size_bytes("c/r/archive.json"), place.size_bytes("c/r/none")) == (3, None)
    assert (place.names(), place.names("c"), place.names("c/r"), place.names("none")) == (
        ["c"], ["r"], ["archive.json"], [],
    )  # fmt: skip
    place.remove("c/r/archive.json")
    place.remove("c/r/archive.json")
    assert place.names("c/r") == []


def test_what_may_pass_is_tried_again(
    flaky: tuple[Place, list[float], list[Exception]],
) -> None:
    place, pauses, failures = flaky
    failures += [TimeoutError("slow"), ConnectionError("slow down")]
    place.put("c/part", b"kept")
    assert pauses == [0.2, 1.0]
    failures += [TimeoutError("slow")]
    assert place.get("c/part") == b"kept"
    assert place.get("c/none") is None
    assert (place.size_bytes("c/part"), place.size_bytes("c/none")) == (4, None)


@pytest.mark.parametrize(
    ("error", "tries"),
    [(PermissionError("no"), 0), (OSError(errno.ENOSPC, "full"), 0), (TimeoutError("slow"), 4)],
    ids=str,
)
def test_a_store_that_refuses_ends_it_with_its_url(
    flaky: tuple[Place, list[float], list[Exception]], error: Exception, tries: int
) -> None:
    place, pauses, failures = flaky
    failures += [error] * 5
    with pytest.raises(ArchiveError, match="flaky://bucket/deep cannot be written") as found:
        place.put("c/part", b"kept")
    assert (found.value.code, len(pauses)) == ("ARCHIVE_UNWRITABLE", tries)
    failures[:] = [error] * 5
    with pytest.raises(ArchiveError, match="cannot be read") as found:
        place.get("c/part")
    assert found.value.code == "ARCHIVE_UNREACHABLE"


@pytest.mark.parametrize(
    ("total", "free", "takes"),
    [
        (1 << 40, 1 << 31, True), (1 << 40, 1 << 30, False),
        (1 << 32, 1 << 28, True), (1 << 32, 1 << 27, False),
    ],
)  # fmt: skip
def test_the_last_room_of_a_disk_is_left_to_what_else_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int, free: int, takes: bool
) -> None:
    """Brokers may lie there, too, and a purge be meant to make room for them."""
    disk = SimpleNamespace(total=total, used=total - free, free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)
    place = Place(str(tmp_path), lambda _: None)
    refused = pytest.raises(ArchiveError, match="takes no more")
    with nullcontext() if takes else refused:
        place.put("c/r/archive.json", b"x")
    assert (place.get("c/r/archive.json") == b"x") is takes


def test_a_folder_that_is_a_file_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError) as found:
        Place(f"{tmp_path}/file", lambda _: None).put("c/part", b"x")
    assert found.value.code == "ARCHIVE_UNWRITABLE"


def test_a_folder_that_is_not_mounted_is_not_made(tmp_path: Path) -> None:
    place = Place(f"{tmp_path}/volume/kept")
    with pytest.raises(ArchiveError, match=r"volume/kept is not there") as found:
        place.put("c/r/archive.json", b"x")
    assert (found.value.code, [*tmp_path.iterdir()]) == ("ARCHIVE_UNREACHABLE", [])


@pytest.mark.parametrize("left", ["volume", "volume/kept"])
def test_a_volume_that_goes_away_midway_takes_nothing_more(tmp_path: Path, left: str) -> None:
    (tmp_path / "volume" / "kept").mkdir(parents=True)
    place = Place(f"{tmp_path}/volume/kept")
    place.put("c/r/archive.json", b"x")
    place.put("c/r/t/0/part-0.json", b"x")
    (tmp_path / "volume").rename(tmp_path / "unmounted")
    (tmp_path / left).mkdir(parents=True)
    with pytest.raises(ArchiveError, match="is not there") as found:
        place.put("c/r/t/0/part-1.json", b"x")
    assert (found.value.code, [*(tmp_path / "volume").rglob("*.json")]) == (
        "ARCHIVE_UNREACHABLE", [],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["../c", "c/..", "c/./d", "c/a b", "c/a%2f"])
def test_no_name_leads_out_of_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match="no name of an archive"):
        Place(str(tmp_path)).get(name)


@pytest.mark.parametrize(
    "url",
    [
        "", " ", "s3://key:secret@bucket/x", "s3://b/x?token=secret", "s3://[x", "none://x",
        "memory://kept", "MEMORY://kept", "simplecache::s3://key:secret@bucket/x", "a::b",
        "s3://bucket/x::memory://",
    ],
)  # fmt: skip
def test_a_url_that_cannot_be_or_tells_a_secret_is_refused(url: str) -> None:
    with pytest.raises(SettingsError) as found:
        Place(url)
    assert found.value.code == "ARCHIVE_URL_INVALID"
    assert "secret" not in str(found.value)


def test_a_plain_url_stays(tmp_path: Path) -> None:
    assert check_url("s3://bucket/a/b") == "s3://bucket/a/b"
    assert Place(f"{tmp_path}/").url_of("c/r") == f"{tmp_path}/c/r"


def test_a_place_is_that_which_is_named_or_that_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    known, none = ArchiveSettings(url="s3://bucket/kept"), ArchiveSettings()
    assert chosen(known, None) is chosen(known, False) is chosen(none, None) is None
    assert chosen(known, True) == "s3://bucket/kept"
    with pytest.raises(ArchiveError, match="kept is not there") as absent:
        chosen(known, "kept")
    assert absent.value.code == "ARCHIVE_UNREACHABLE"
    assert absent.value.next_step.endswith(f"mkdir -p {tmp_path}/kept")
    (tmp_path / "kept").mkdir()
    assert chosen(known, "kept") == chosen(none, str(tmp_path / "kept"))
    assert chosen(none, f"file://{tmp_path}/kept") == str(tmp_path / "kept")
    with pytest.raises(ArchiveError, match="other is not there"):
        chosen(none, f"file://{tmp_path}/other")
    with pytest.raises(SettingsError) as found:
        chosen(none, True)
    assert found.value.code == "ARCHIVE_NOT_NAMED"


def test_the_settings_are_checked_as_they_are_read() -> None:
    assert archive_settings({}, "here") == ArchiveSettings()
    own = {"url": "s3://b/x", "part_bytes": 2**20, "readers": 1, "bytes_per_second": 2**20}
    assert archive_settings({**own, "zstd_level": 3}, "here") == ArchiveSettings(
        "s3://b/x", 2**20, 1, 2**20, 3
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"part_bytes": 1000}, {"part_bytes": 2**31}, {"readers": 0}, {"readers": 65},
        {"bytes_per_second": 9}, {"bytes_per_second": "1 MiB"}, {"zstd_level": 23}, {"url": ""},
        {"url": "s3://u:p@b"}, {"keys": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_setting_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=rf"(?i){next(iter(wrong)).removesuffix('s')}"):
        archive_settings(wrong, "here")
