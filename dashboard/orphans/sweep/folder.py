"""What one folder of a log dir is on the disk now, read through its own descriptor; who has its
files open and a log dir locked, by the kernel's own tables.

A running broker holds the segments of every `-stray` folder open until it ends (it loads them at
its start, LogManager.addStrayLog) and never looks at them again: seen on 3.9.2, 4.3.1 and 4.4.0.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dashboard.domain import acts
from dashboard.inventory.contents import (
    BLOCK_BYTES,
    LONGEST_LINE,
    DamagedError,
    last_timestamp,
    log_end,
    parse_topic_id,
)
from dashboard.inventory.names import (
    LARGEST_METADATA,
    PARTITION_METADATA,
    Folder,
    folder_of,
    is_left_out,
    is_plain,
    segment_file,
    segment_name,
)
from dashboard.orphans.sweep.report import Refusal
from dashboard.orphans.verdicts import Verdict
from dashboard.safety.last_copy import Records, later

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UNFINISHED = (".swap", ".cleaned")  # UnifiedLog: segments that a cleaner or a split replaces
_LONGEST_NAME = 255  # LocalLog.logDirNameWithSuffixCappedLength cuts the topic to fit
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Measured:
    """A folder's identity and contents; two of them are equal when nothing has changed."""

    device: int
    inode: int
    log_bytes: int
    allocated_bytes: int
    newest_ms: int  # of the `.log` files' mtimes; of all files' where there is none
    files: frozenset[tuple[str, int, int, int]]  # name, inode, bytes, mtime in ns

    @property
    def inodes(self) -> set[tuple[int, int]]:
        """Device and inode of the folder and of each file."""
        return {(self.device, self.inode), *((self.device, file[1]) for file in self.files)}


# What the name of each kind's folder may say; the other kinds are never swept.
_NAMED = {
    acts.STRAY: ("stray",),
    acts.DELETED_TOPIC: ("live",),
    acts.MOVED_AWAY: ("live", "stray"),
    acts.RECREATED_TOPIC: ("live", "stray"),
    acts.ABANDONED_FUTURE: ("future",),
    acts.LATE_DELETE: ("delete",),
}


def told_by_name(row: Verdict) -> Folder:
    """The partition folder that the row's name tells. Raises Refusal `kind` or `name`."""
    name = row.directory
    if row.kind == acts.CHECKPOINT_ENTRY or name is None:
        raise Refusal("kind", "a checkpoint entry has no folder; the broker rewrites it by itself")
    if row.kind not in _NAMED:
        raise Refusal(
            "kind",
            "the same partition lies in two log dirs: which one holds its records has to be "
            "found out by hand, with the broker stopped",
        )
    found = folder_of(name) if is_plain(name) and not is_left_out(name) else None
    if found is None:
        raise Refusal("name", f"{name!r} is no name that Kafka gives a partition's folder")
    cut = len(name) == _LONGEST_NAME and found.kind != "live" and row.topic.startswith(found.topic)
    if found.partition != row.partition or (found.topic != row.topic and not cut):
        raise Refusal("name", f"its name is not that of {row.topic}-{row.partition}")
    if found.kind not in _NAMED[row.kind]:
        raise Refusal("kind", f"its name tells a {found.kind} folder, judged was {row.kind}")
    return found


@contextmanager
def opened(root: int, name: str) -> Iterator[int]:
    """The folder as a descriptor; no link is followed. Raises Refusal `gone`, `link` and others."""
    try:
        folder = os.open(name, FOLDER, dir_fd=root)
    except FileNotFoundError as error:
        raise Refusal("gone", "it is not there any more") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise Refusal("link", "it is a link or no folder") from error
        raise Refusal("unreadable", f"it cannot be opened: {error.strerror}") from error
    try:
        yield folder
    finally:
        os.close(folder)


def measure(folder: int, root_device: int) -> Measured:
    """All files of an open folder. Raises Refusal for whatever a partition's folder never holds."""
    state = os.fstat(folder)
    if state.st_dev != root_device:
        raise Refusal("other-mount", "another file system is mounted there")
    files: set[tuple[str, int, int, int]] = set()
    log_bytes = blocks = 0
    newest = {True: 0, False: 0}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                _refuse_unusual(entry.name, found, root_device)
                is_log = entry.name.endswith(".log")
                files.add((entry.name, found.st_ino, found.st_size, found.st_mtime_ns))
                log_bytes += found.st_size if is_log else 0
                blocks += found.st_blocks
                newest[is_log] = max(newest[is_log], found.st_mtime_ns)
    except FileNotFoundError as error:
        raise Refusal("changed", "its files are being removed just now") from error
    except OSError as error:
        raise Refusal("unreadable", f"it cannot be read: {error.strerror}") from error
    newest_ns = newest[True] or newest[False]
    return Measured(
        state.st_dev, state.st_ino, log_bytes, blocks * BLOCK_BYTES, newest_ns // 1_000_000,
        frozenset(files),
    )  # fmt: skip


def _refuse_unusual(name: str, found: os.stat_result, device: int) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise Refusal("link", f"{name!r} in it is a link")
    if not stat.S_ISREG(found.st_mode) or found.st_dev != device:
        raise Refusal("unusual", f"{name!r} in it is no file")
    if name.endswith(_UNFINISHED):
        raise Refusal(
            "unusual",
            f"{name!r} in it is a cleaner's, that was killed: its records are in no .log file. A "
            "broker that starts on the folder finishes or removes it",
        )
    if found.st_nlink > 1:
        raise Refusal("link", f"{name!r} in it has a second name (a hard link)")


def changed_at(folder: int) -> datetime:
    """When an open folder was renamed, copied here, or its rights or list of files changed, last.

    By its ctime, which nobody can set back: neither mv, cp -a nor touch keep or choose it.
    """
    return later(_EPOCH, timedelta(milliseconds=os.fstat(folder).st_ctime_ns // 1_000_000))


def topic_id(folder: int) -> str | None:
    """The topic id of an open folder's `partition.metadata`; None without one. Raises Refusal."""
    try:
        file = os.open(PARTITION_METADATA, _FILE, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refusal(
            "topic-id", f"{PARTITION_METADATA} cannot be read: {error.strerror}"
        ) from error
    with os.fdopen(file, "rb") as found:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode) or state.st_size > LARGEST_METADATA:
            raise Refusal("topic-id", f"{PARTITION_METADATA} is no file, or too large")
        try:
            return parse_topic_id(iter(lambda: found.readline(LONGEST_LINE), b""))
        except (DamagedError, OSError) as error:
            raise Refusal("topic-id", f"{PARTITION_METADATA}: {error}") from error


def records_of(folder: int, found: Measured) -> Records:
    """What an open folder holds of records, read again: where they end, and how new they are."""
    segments = {s for s in map(segment_file, (file[0] for file in found.files)) if s is not None}
    logs = [base_offset for base_offset, suffix in segments if suffix == ".log"]
    newest = [found.newest_ms]
    for base_offset, suffix in segments:
        if suffix == ".timeindex":
            newest.append(_last_time(folder, segment_name(base_offset, suffix)))
    return Records(
        found.log_bytes,
        log_end(folder, max(logs)) if logs else None,
        later(_EPOCH, timedelta(milliseconds=max(newest))),
    )


def _last_time(folder: int, name: str) -> int:
    """Milliseconds of a time index's last entry, 0 without one. Raises Refusal."""
    try:
        file = os.open(name, _FILE, dir_fd=folder)
        try:
            return last_timestamp(file, os.fstat(file).st_size) or 0
        finally:
            os.close(file)
    except OSError as error:
        raise Refusal("unreadable", f"{name} cannot be read: {error.strerror}") from error


def same_as_judged(row: Verdict, found: Measured) -> None:
    """Raises Refusal `changed` unless the folder holds what its verdict was given for."""
    if row.size_bytes is None or row.newest_at is None:
        raise Refusal("changed", "the verdict does not say what the folder held")
    if found.log_bytes != row.size_bytes:
        raise Refusal(
            "changed", f"it holds {found.log_bytes} bytes of records, judged were {row.size_bytes}"
        )
    judged_ms = (row.newest_at - _EPOCH) // timedelta(milliseconds=1)
    if found.newest_ms > judged_ms:
        raise Refusal("changed", "it was written to after it was judged")


PROC = Path("/proc")
LOCK = ".lock"  # Kafka's LogManager locks it in each log dir as long as it runs
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid


class Broker:
    """The process that holds a log dir's lock; pid 0: one of another pid namespace.

    Which files it has open is read once: a broker has tens of thousands, and of a stray that is
    told, not judged.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._open: frozenset[tuple[int, int]] | None = None

    def holds(self, found: Measured) -> bool:
        """Whether it had the folder or a file of it open. Raises Refusal `open-unknown`."""
        if self._open is None:
            try:
                if self.pid == 0:
                    raise PermissionError
                self._open = frozenset(_open_files(self.pid))
            except (PermissionError, FileNotFoundError, ProcessLookupError) as error:
                raise Refusal(
                    "open-unknown",
                    "which files the broker has open cannot be seen: run it as root or as the "
                    "broker's user, and inside its container if it has one",
                ) from error
        return not self._open.isdisjoint(found.inodes)


def lock_holder(log_dir: int) -> int | None:
    """The process that holds an open log dir's `.lock`; 0: one of another pid namespace.

    None when nobody does: no broker runs on this log dir, here.
    """
    try:
        file = os.open(LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=log_dir)
    except FileNotFoundError:
        return None
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_, pid = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    finally:
        os.close(file)
    return None if kind == fcntl.F_UNLCK else max(pid, 0)


def refuse_if_open(found: Measured, *, broker: Broker, is_stray: bool) -> bool:
    """Whether the broker itself still holds a stray's files; any other opener is refused.

    Files are told by device and inode, so that a container's paths need not be this host's.
    Raises Refusal `open-file`, or `open-unknown` when the broker's files cannot be seen.
    """
    held, wanted = broker.holds(found), found.inodes
    judged = (pid for pid in _processes() if pid != broker.pid or not is_stray)
    openers = [pid for pid in judged if _has(pid, wanted)]
    if openers:
        named = ", ".join(f"{pid} ({_name(pid)})" for pid in openers[:3])
        raise Refusal("open-file", f"its files are open in process {named}")
    return held


def hidden_processes() -> int:
    """How many processes of this host cannot be looked into by this user; 0 without /proc."""
    if not PROC.is_dir():
        return 0  # then each folder was refused for it
    hidden = 0
    for pid in _processes():
        try:
            os.listdir(PROC / str(pid) / "fd")  # noqa: PTH208 - only whether it may be listed
        except PermissionError:
            hidden += 1
        except OSError:
            continue
    return hidden


def _processes() -> Iterator[int]:
    try:
        with os.scandir(PROC) as entries:
            found = [int(entry.name) for entry in entries if entry.name.isdigit()]
    except OSError as error:
        raise Refusal("open-unknown", "open files cannot be seen without /proc") from error
    yield from sorted(pid for pid in found if pid != os.getpid())


def _has(pid: int, wanted: set[tuple[int, int]]) -> bool:
    """Whether a process has one of these open or mapped; not when it cannot be looked into."""
    try:
        return any(file in wanted for file in _open_files(pid)) or _has_mapped(pid, wanted)
    except (PermissionError, FileNotFoundError, ProcessLookupError):
        return False  # hidden: told by number; or it has ended


def _open_files(pid: int) -> Iterator[tuple[int, int]]:
    with os.scandir(PROC / str(pid) / "fd") as entries:
        for entry in entries:
            try:
                state = entry.stat()
            except OSError:
                continue  # closed meanwhile, or nothing that has an inode
            yield state.st_dev, state.st_ino


def _has_mapped(pid: int, wanted: set[tuple[int, int]]) -> bool:
    with (PROC / str(pid) / "maps").open("rb") as lines:
        for line in lines:
            words = line.split(maxsplit=5)
            if len(words) < 6 or words[4] == b"0":
                continue
            major, _, minor = words[3].partition(b":")
            if (os.makedev(int(major, 16), int(minor, 16)), int(words[4])) in wanted:
                return True
    return False


def _name(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return "ended"
