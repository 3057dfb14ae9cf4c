"""Who has a log dir locked and a folder's files open, by the kernel's own tables.

A running broker holds the segments of every `-stray` folder open until it ends (it loads them at
its start, LogManager.addStrayLog) and never looks at them again: seen on 3.9.2, 4.3.1 and 4.4.0.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from dashboard.orphans.sweep.sweep_folder import Measured
from dashboard.orphans.sweep.sweep_report import Refusal

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
