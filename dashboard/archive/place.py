"""Where archives lie: a folder, or an object store through fsspec, asked by names alone.

A put is on the disk, with the folders that lead to it, before it returns; an object store has then
taken it whole. What may pass (a time-out, a store that is slowed) is tried again.
"""

from __future__ import annotations

import errno
import re
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from dashboard.archive.manifest import (
    PARTITION,
    RUN,
    PartitionArchive,
    RunArchive,
    partition_name,
    run_name,
    sealed,
)
from dashboard.core.canonical import SealedKind
from dashboard.core.errors import ArchiveError, LowwaterError, SettingsError, StoreError
from dashboard.core.system import make_durable
from dashboard.core.words import binary
from dashboard.domain.model import TopicPartition
from dashboard.settings.archive import absent, check_url
from dashboard.store.local_files import open_files
from dashboard.store.snapshot_files import write_atomically

_T = TypeVar("_T")
_PAUSES_SECONDS = (0.2, 1.0, 3.0, 10.0)  # between attempts: a store that throttles needs seconds
_LATE_PAUSES_SECONDS = (0.2, 1.0, 3.0)  # a store may show a file, or its new content, late
_MOST_RESERVE_BYTES, _RESERVE_SHARE = 1 << 30, 20  # of a disk at least a twentieth
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
_DATED = ("LastModified", "mtime", "last_modified")  # of s3, gs and abfs
# Words of a name that no file system and no URL reads as something else.
WORD = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]+")


@dataclass
class Place:
    """One archive URL. `sleep` waits between attempts. A folder must be there: none is made."""

    url: str
    sleep: Callable[[float], None] = time.sleep
    _files: Any = field(init=False, repr=False)
    _root: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_url(self.url)
        try:
            self._files, self._root = open_files(self.url)
        except (ValueError, ImportError) as error:
            raise SettingsError(
                f"nothing here opens the archive URL {self.url}: {error}",
                "Give a folder or s3://BUCKET/PREFIX; s3 needs the extra lowwater[s3].",
                code="ARCHIVE_URL_INVALID",
            ) from error
        except StoreError as error:
            raise ArchiveError(
                error.message, error.next_step, code="ARCHIVE_UNREACHABLE"
            ) from error

    @property
    def is_local(self) -> bool:
        return "file" in self._files.protocol

    def get(self, name: str) -> bytes | None:
        """What lies there; None: nothing does. Raises ArchiveError ARCHIVE_UNREACHABLE."""

        def read() -> bytes | None:
            try:
                return bytes(self._files.cat_file(self._path(name)))
            except (FileNotFoundError, NotADirectoryError):
                return None

        return self._tried(read, name, "read", code="ARCHIVE_UNREACHABLE")

    def record(self, kind: SealedKind[_T], name: str) -> _T | None:
        """The sealed record that lies there; None: nothing does.

        Raises ArchiveError where it cannot be read, RefusedError where it was changed.
        """
        body = self.get(name)
        return (
            None if body is None else kind.parse(body.decode(errors="replace"), self.url_of(name))
        )

    def size_bytes(self, name: str) -> int | None:
        """Of what lies there; None: nothing does. Raises ArchiveError ARCHIVE_UNREACHABLE."""

        def told() -> int | None:
            try:
                path = self._path(name)
                return int(
                    Path(path).stat().st_size if self.is_local else self._files.info(path)["size"]
                )
            except (FileNotFoundError, NotADirectoryError):
                return None

        return self._tried(told, name, "read", code="ARCHIVE_UNREACHABLE")

    def put(self, name: str, body: bytes) -> None:
        """Put a file whole, over one of that name. Raises ArchiveError ARCHIVE_UNWRITABLE."""
        self._tried(lambda: self._put(name, body), name, "written", code="ARCHIVE_UNWRITABLE")

    def settled(self, name: str, is_it: Callable[[bytes], bool]) -> bytes:
        """A file as it lies there, once it is what was put. Raises ArchiveError
        ARCHIVE_NOT_AS_WRITTEN, ARCHIVE_UNREACHABLE.
        """
        for pause in (*_LATE_PAUSES_SECONDS, None):
            found = self.get(name)
            if found is not None and is_it(found):
                return found
            if pause is not None:
                self.sleep(pause)
        raise self.not_as_written(name)

    def put_settled(self, name: str, body: bytes) -> None:
        """Put a file and read it back. Raises as `put` and `settled` do."""
        self.put(name, body)
        self.settled(name, lambda found: found == body)

    def not_as_written(self, name: str) -> ArchiveError:
        return ArchiveError(
            f"{self.url_of(name)} is not what was written when it is read back",
            "Check the store, its proxies and this machine's memory; nothing is deleted without a "
            "proof.",
            code="ARCHIVE_NOT_AS_WRITTEN",
        )

    def remove(self, name: str) -> None:
        """Remove a file; one that is not there is removed. Raises ArchiveError."""

        def remove() -> None:
            try:
                self._files.rm(self._path(name))
            except FileNotFoundError:
                return

        self._tried(remove, name, "removed", code="ARCHIVE_UNWRITABLE")

    def told_time(self) -> datetime | None:
        """What time it is for an object store, by a file put there; None: it does not tell, or the
        place is a folder, whose files are dated by this host. Raises ArchiveError.
        """
        if self.is_local:
            return None
        name = f"clock-{secrets.token_hex(4)}"
        self.put(name, b"now")
        try:
            told = self._tried(
                lambda: self._files.info(self._path(name)), name, "read",
                code="ARCHIVE_UNREACHABLE",
            )  # fmt: skip
        finally:
            self.remove(name)
        at = next((told[key] for key in _DATED if key in told), None)
        return at if isinstance(at, datetime) and at.tzinfo is not None else None

    def remove_empty(self, folder: str) -> None:
        """Remove a folder in which nothing lies; a bucket has none."""
        if self.is_local:
            with suppress(OSError):
                Path(self._path(folder)).rmdir()

    def names(self, folder: str = "") -> list[str]:
        """The last words of what a listing tells below a folder: to find runs, never to count on.

        Raises ArchiveError ARCHIVE_UNREACHABLE.
        """

        def listed() -> list[str]:
            try:
                entries = self._files.ls(self._path(folder), detail=True, refresh=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
            return sorted({str(e["name"]).rstrip("/").rsplit("/", 1)[-1] for e in entries})

        return self._tried(listed, folder, "listed", code="ARCHIVE_UNREACHABLE")

    def url_of(self, name: str) -> str:
        """The whole address of a file, for people and for Spark."""
        return f"{self.url.rstrip('/')}/{name}"

    def _path(self, name: str) -> str:
        words = [word for word in name.split("/") if word]
        if not all(WORD.fullmatch(word) for word in words):
            raise ArchiveError(
                f"'{name}' is no name of an archive",
                "Give the folder of an archive as lowwater archives lists it.",
            )
        return "/".join([self._root, *words])

    def _put(self, name: str, body: bytes) -> None:
        path = self._path(name)
        if not self.is_local:
            self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            self._files.pipe_file(path, body)
            return
        made = self._made_folders(name)
        self._refuse_last_room(len(body))
        write_atomically(self._files, path, body)
        # A name is on the disk once its folder is: a power cut must not take what was proved.
        for folder in {Path(path).parent, *(folder.parent for folder in made)}:
            make_durable(folder)

    def _refuse_last_room(self, size_bytes: int) -> None:
        """Whoever purges may do it since a disk is full: on the same one an archive would end what
        else lies there, Kafka's brokers with it.
        """
        disk = shutil.disk_usage(self._root)
        reserve = min(_MOST_RESERVE_BYTES, disk.total // _RESERVE_SHARE)
        if disk.free - size_bytes < reserve:
            raise ArchiveError(
                f"the archive {self.url} takes no more: {binary(disk.free)} are free on its disk, "
                f"and {binary(reserve)} are left to what else lies there",
                "Free space, or plan again with a place on another disk: nothing is deleted.",
                code="ARCHIVE_UNWRITABLE",
            )

    def _made_folders(self, name: str) -> list[Path]:
        """Make what leads to a file. The top is never made, nor for a file of a partition the run's
        own folder: what an unmounted volume leaves open would be written to the disk below it.
        """
        top, words = Path(self._root), name.split("/")[:-1]
        begun = 2 if len(words) > 2 else 0
        made = []
        for count in range(begun + 1, len(words) + 1):
            folder = top.joinpath(*words[:count])
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            except FileNotFoundError as error:
                raise (_left(folder.parent) if top.is_dir() else absent(str(top))) from error
            made.append(folder)
        return made

    def _tried(self, act: Callable[[], _T], name: str, done: str, *, code: str) -> _T:
        for pause in (*_PAUSES_SECONDS, None):
            try:
                return act()
            except ArchiveError:
                raise
            except (OSError, LowwaterError) as error:
                if pause is None or not _may_pass(error):
                    raise self._failed(name, done, code, error) from error
                self.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _failed(self, name: str, done: str, code: str, error: Exception) -> ArchiveError:
        cause = _causes(error)[-1]
        what = getattr(cause, "strerror", None) or str(cause).split("\n")[0] or type(cause).__name__
        return ArchiveError(
            f"the archive {self.url} cannot be {done}: {what} ({name or 'its top'})",
            "Check its address, space, rights and credentials, then run it again: what was proved "
            "stays, and nothing is deleted without its proof.",
            code=code,
        )


def committed(place: Place, run: RunArchive, key: TopicPartition) -> PartitionArchive | None:
    """The commit of a partition as it lies in the place now; None: there is none.

    Raises ArchiveError where it cannot be read or is another's, RefusedError where it was changed.
    """
    name = partition_name(run.cluster_id, run.run_id, key)
    found = place.record(PARTITION, name)
    if found is None:
        return None
    if (found.topic, found.partition) != key:
        raise ArchiveError(
            f"{place.url_of(name)} is of {found.topic}-{found.partition}",
            "Restore the file from a copy; nothing is deleted that rests on it.",
        )
    return found


def begin(
    place: Place, cluster_id: str, run_id: str, make: Callable[[], RunArchive]
) -> tuple[RunArchive, bool]:
    """The archive of a run, begun as `make` says unless it was before; whether it is new.

    Raises ArchiveError, RefusedError where the one that is there was changed.
    """
    name = run_name(cluster_id, run_id)
    if (there := place.record(RUN, name)) is not None:
        return there, False
    run = make()
    place.put_settled(name, sealed(RUN, run))
    return run, True


def end(
    place: Place,
    run: RunArchive,
    kept: Mapping[TopicPartition, PartitionArchive],
    passed: Collection[TopicPartition],
) -> RunArchive:
    """Replace the run's manifest by what became of it: which partitions have their commit, and
    which had nothing to keep any more, so that they are not in it. A range begins where its commit
    does: retention may have gone on before it was read.
    """
    ranges = tuple(
        replace(r, start=kept[r.key].start, kept=True) if r.key in kept else r
        for r in run.partitions
        if r.key not in passed
    )
    whole = all(r.key in kept for r in ranges)
    ended = replace(run, partitions=ranges, state="whole" if whole else "incomplete")
    place.put_settled(run_name(run.cluster_id, run.run_id), sealed(RUN, ended))
    return ended


def _left(folder: Path) -> ArchiveError:
    return ArchiveError(
        f"the archive {folder} is not there any more",
        "Mount what it lies on, then plan again; nothing is deleted without its proof.",
        code="ARCHIVE_UNREACHABLE",
    )


def _causes(error: BaseException) -> list[BaseException]:
    """An error and what it came from, the first cause last."""
    found = [error]
    while found[-1].__cause__ is not None:
        found.append(found[-1].__cause__)
    return found


def _may_pass(error: Exception) -> bool:
    """Whether another attempt may go well: not where rights, room or the name are missing, and
    not where nothing is ever written.
    """
    if getattr(error, "code", None) == "STORE_READ_ONLY":
        return False
    refused = (PermissionError, FileNotFoundError, IsADirectoryError, NotADirectoryError)
    return not any(
        isinstance(cause, refused) or getattr(cause, "errno", None) in _FULL
        for cause in _causes(error)
    )
