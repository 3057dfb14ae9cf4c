"""Walks a broker's log dirs where they are: opens to read, follows no link, writes nothing."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import BinaryIO

from dashboard.core.errors import InventoryError, LogDirError
from dashboard.inventory.contents import (
    LONGEST_LINE,
    DamagedError,
    FolderSum,
    last_timestamp,
    log_end,
    parse_checkpoint,
    parse_meta,
    parse_topic_id,
)
from dashboard.inventory.names import (
    CHECKPOINTS,
    LARGEST_METADATA,
    META,
    PARTITION_METADATA,
    Folder,
    folder_of,
    is_left_out,
    is_plain,
    segment_file,
)
from dashboard.inventory.recorder import LINK, NESTED, NO_PARTITION, SPECIAL, Recorder

NEWEST_FROM = "time index and mtime"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Not blocking: a pipe that bears a checkpoint's name must not hold the scan.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def scan(log_dirs: Sequence[str], recorder: Recorder, *, now: Callable[[], datetime]) -> None:
    """Everything in `log_dirs` into `recorder`; what cannot be read becomes a gap.

    A log dir itself may be a link, as it may be for the broker; nothing inside is followed. What
    vanishes meanwhile is no gap: brokers delete segments all the time. Raises LogDirError when no
    log dir can be opened, InventoryError when two are the same folder or another broker's.
    """
    recorder.scanned_at = now()
    seen: dict[tuple[int, int], str] = {}
    for log_dir in log_dirs:
        try:
            root = os.open(log_dir, _FOLDER)
        except OSError as error:
            recorder.gap(log_dir, "", _reason(error))
            continue
        try:
            _refuse_twice(log_dir, os.fstat(root), seen)
            _scan_log_dir(log_dir, root, recorder)
        finally:
            os.close(root)
    if not seen:
        raise LogDirError(
            "; ".join(f"{gap.log_dir}: {gap.reason}" for gap in recorder.gaps),
            "Run it on the broker's host, as a user who may read its log dirs.",
            code="LOG_DIR_UNREADABLE",
        )


def _refuse_twice(log_dir: str, found: os.stat_result, seen: dict[tuple[int, int], str]) -> None:
    first = seen.setdefault((found.st_dev, found.st_ino), log_dir)
    if first != log_dir:
        raise InventoryError(
            f"{first} and {log_dir} are the same folder", "Name it once.", code="LOG_DIR_TWICE"
        )


def _scan_log_dir(log_dir: str, root: int, recorder: Recorder) -> None:
    """One open log dir. Its identity first: another broker's disk is not worth the walk."""
    _read(recorder, log_dir, root, META, lambda file: recorder.meta(log_dir, parse_meta(file)))
    for name in CHECKPOINTS:
        _read(recorder, log_dir, root, name, _checkpoint_reader(log_dir, name, recorder))
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                if is_left_out(entry.name):
                    continue
                if entry.is_symlink():
                    recorder.gap(log_dir, entry.name, LINK)
                elif entry.is_dir(follow_symlinks=False):
                    folder = folder_of(entry.name) if is_plain(entry.name) else None
                    if folder is None:
                        recorder.gap(log_dir, entry.name, NO_PARTITION)
                    else:
                        _scan_folder(log_dir, root, folder, recorder)
    except OSError as error:
        recorder.gap(log_dir, "", _reason(error))


def _scan_folder(log_dir: str, root: int, folder: Folder, recorder: Recorder) -> None:
    try:
        opened = os.open(folder.directory, _FOLDER | os.O_NOFOLLOW, dir_fd=root)
    except FileNotFoundError:
        return
    except OSError as error:
        recorder.gap(log_dir, folder.directory, _reason(error))
        return
    try:
        found = FolderSum(folder, os.fstat(opened).st_mtime_ns)
        topic_ids: list[str] = []
        path = f"{folder.directory}/{PARTITION_METADATA}"
        _read(
            recorder, log_dir, opened, PARTITION_METADATA,
            lambda file: topic_ids.append(parse_topic_id(file)),
            shown=path, largest=LARGEST_METADATA,
        )  # fmt: skip
        _add_files(log_dir, opened, found, recorder)
        if found.last_base_offset is not None:
            found.add_end(log_end(opened, found.last_base_offset))
    except OSError as error:
        recorder.gap(log_dir, folder.directory, _reason(error))
    else:
        recorder.folder(log_dir, folder, topic_ids[0] if topic_ids else None, found.rows())
    finally:
        os.close(opened)


def _add_files(log_dir: str, opened: int, found: FolderSum, recorder: Recorder) -> None:
    with os.scandir(opened) as entries:
        for entry in entries:
            try:
                state = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(state.st_mode):
                reason = _UNUSUAL.get(stat.S_IFMT(state.st_mode), SPECIAL)
                recorder.gap(log_dir, f"{found.folder.directory}/{entry.name}", reason)
                continue
            found.add(entry.name, state.st_size, state.st_blocks, state.st_mtime_ns)
            if entry.name.endswith(".timeindex") and state.st_blocks:
                _add_time(opened, entry.name, state.st_size, found)


_UNUSUAL = {stat.S_IFDIR: NESTED, stat.S_IFLNK: LINK}


def _add_time(opened: int, name: str, size: int, found: FolderSum) -> None:
    """The time index is a refinement: without it, mtime is what is known of a segment's age."""
    segment = segment_file(name)
    if segment is None or segment[1] != ".timeindex":
        return
    try:
        file = os.open(name, _FILE, dir_fd=opened)
    except OSError:
        return
    try:
        milliseconds = last_timestamp(file, size)
    except OSError:
        return
    finally:
        os.close(file)
    if milliseconds is not None:
        found.add_time(segment[0], milliseconds)


def _checkpoint_reader(
    log_dir: str, name: str, recorder: Recorder
) -> Callable[[Iterator[bytes]], None]:
    def read(lines: Iterator[bytes]) -> None:
        for entry in parse_checkpoint(lines):
            recorder.checkpoint(log_dir, name, entry)

    return read


def _read(
    recorder: Recorder,
    log_dir: str,
    folder: int,
    name: str,
    take: Callable[[Iterator[bytes]], None],
    *,
    shown: str | None = None,
    largest: int | None = None,
) -> None:
    """Give a small file's lines to `take`; one that is not there is no gap."""
    try:
        with _opened(folder, name, largest) as file:
            take(iter(lambda: file.readline(LONGEST_LINE), b""))
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ELOOP:  # a link: the walk tells it
            recorder.gap(log_dir, shown or name, _reason(error))
    except DamagedError as error:
        recorder.gap(log_dir, shown or name, str(error))


@contextmanager
def _opened(folder: int, name: str, largest: int | None) -> Iterator[BinaryIO]:
    with os.fdopen(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise DamagedError("not a file: not read")
        if largest is not None and state.st_size > largest:
            raise DamagedError(f"{state.st_size} bytes are too many: not read")
        yield file


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return LINK
    return (error.strerror or str(error)).lower()
