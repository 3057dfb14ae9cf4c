"""Who has a log dir locked and a folder's files open, by the kernel's own tables.

A running broker holds the segments of every `-stray` folder open until it ends (it loads them at
its start, LogManager.addStrayLog) and never looks at them again: seen on 4.3.1 for every stray.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dashboard.orphans.sweep_folder import Measured
from dashboard.orphans.sweep_refusal import Refusal

PROC = Path("/proc")
LOCK = ".lock"  # Kafka's LogManager locks it in each log dir as long as it runs
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid


@dataclass(frozen=True, slots=True)
class Openers:
    """Processes that have a folder's files open, and how many could not be looked into."""

    pids: tuple[int, ...]
    hidden: frozenset[int]


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


def who_has_open(found: Measured) -> Openers:
    """Processes other than this one with the folder, or a file of it, open or mapped.

    Files are told by device and inode, so that a container's paths need not be this host's.
    Raises Refusal `open-unknown` without /proc.
    """
    wanted = found.inodes
    pids: list[int] = []
    hidden: set[int] = set()
    for pid in _processes():
        try:
            if _has_open(pid, wanted) or _has_mapped(pid, wanted):
                pids.append(pid)
        except PermissionError:
            hidden.add(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return Openers(tuple(pids), frozenset(hidden))


def refuse_if_open(found: Measured, *, broker_pid: int, is_stray: bool) -> bool:
    """Whether the broker itself still holds a stray's files; any other opener is refused.

    Raises Refusal `open-file`, or `open-unknown` when the broker's files cannot be seen.
    """
    openers = who_has_open(found)
    if broker_pid == 0 or broker_pid in openers.hidden:
        raise Refusal(
            "open-unknown",
            "which files the broker has open cannot be seen: run it as root or as the broker's "
            "user, and inside its container if it has one",
        )
    others = [pid for pid in openers.pids if pid != broker_pid or not is_stray]
    if others:
        named = ", ".join(f"{pid} ({_name(pid)})" for pid in others[:3])
        raise Refusal("open-file", f"its files are open in process {named}")
    return broker_pid in openers.pids


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


def _has_open(pid: int, wanted: set[tuple[int, int]]) -> bool:
    with os.scandir(PROC / str(pid) / "fd") as entries:
        for entry in entries:
            try:
                state = entry.stat()
            except OSError:
                continue  # closed meanwhile, or nothing that has an inode
            if (state.st_dev, state.st_ino) in wanted:
                return True
    return False


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
