"""Which file a journal is, and its newest link, kept beside it: why nothing is written to a copy,
another user's, one that was rolled back, mixed, or lies on a network.

Inode and birth tell a journal from each copy. Both are on the disk with it, so that reboots, mounts
and `mv` leave them. A device's number is not: LVM, USB, NFS and containers get another one as they
come up. Nor is the inode alone enough: ext4 gives that of a removed file to the next one, which may
be the backup that takes its place.

A journal out of a backup verifies by itself, and forgets every cancel since. Its head is written
here after each commit, so that it may lag behind the file, when a process dies in between, and
never leads: one that leads tells of links that are gone. It says too which file it was kept of: a
copy of both, looked at beside the original, forgets what was asked there since.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import pwd
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from dashboard.core.clock import format_time
from dashboard.core.errors import JournalError
from dashboard.core.locks import wait_for
from dashboard.core.network_folders import keeps_files
from dashboard.core.system import LIBC, make_durable

_HERE, _BIRTH = -100, 0x800  # AT_FDCWD, STATX_BTIME
_BYTES, _MASK_AT, _BIRTH_AT = 256, 0, 80  # struct statx, statx(2)


class FileIdentity(NamedTuple):
    """Inode, and when it was made (ns since the epoch); 0: the file system does not tell."""

    inode: int
    born_ns: int

    def may_be(self, other: FileIdentity) -> bool:
        """Whether both are of one file, as far as both tell."""
        unknown = 0 in (self.born_ns, other.born_ns)
        return self.inode == other.inode and (unknown or self.born_ns == other.born_ns)


def identity(path: Path) -> FileIdentity:
    """Of the file at a path. Raises OSError."""
    return FileIdentity(path.stat().st_ino, _born_ns(path))


def _born_ns(path: Path) -> int:
    """Python's os.stat does not tell it on Linux."""
    statx = getattr(LIBC, "statx", None)
    told = ctypes.create_string_buffer(_BYTES)
    if statx is None or statx(_HERE, os.fsencode(path), 0, _BIRTH, told) != 0:
        return 0
    (mask,) = struct.unpack_from("=I", told, _MASK_AT)
    seconds, nanoseconds = struct.unpack_from("=qI", told, _BIRTH_AT)
    return int(seconds) * 1_000_000_000 + int(nanoseconds) if mask & _BIRTH else 0


def a_copy(path: Path, newest_entry: int) -> JournalError:
    """What nobody may write to, and how it becomes the journal that counts."""
    return JournalError(
        f"the purge journal {path} is a copy: by number and birth it is not the file that "
        "journal.head was kept of, and a cancel or a stop of that one may be missing in it",
        "It can be read; act in the state_dir of the other one. If this one is to take its place, "
        "after a restore or on another disk, stop every process of lowwater: lowwater runs "
        f"--accept-restored {newest_entry} "
        "cancels what is open in this one, and stops every purge until an approver allows them.",
        code="JOURNAL_ROLLED_BACK",
    )


def not_ours(path: Path) -> JournalError | None:
    """That another user owns the journal at a path, and what to do; None: we do, or nobody knows.

    What root leaves beside it, a lock or a log, its owner's workers cannot open: none would work.
    The folder may be anybody's, as that of a volume is. Raises OSError.
    """
    owner = path.stat().st_uid
    if owner == os.geteuid() or not keeps_files(path.parent):
        return None
    us, name = _name(os.geteuid()), _name(owner)
    return JournalError(
        f"the purge journal {path} is {name}'s, and this is {us}: what {us} leaves beside it the "
        f"workers of {name} cannot open",
        f"It can be read. To act, be its owner: sudo -u {name} lowwater …, with LOWWATER_SETTINGS "
        f"and LOWWATER_STATE_DIR as {name} has them. Or give all of {path.parent} to one user "
        "with: chown -R.",
        code="JOURNAL_OF_ANOTHER",
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # of another machine, or of the host of this container
        return f"#{uid}"  # as sudo takes it


def on_network(path: Path, kind: str) -> JournalError:
    """Where a network file system would hold it."""
    return JournalError(
        f"the purge journal {path} would lie on a network file system ({kind}), where SQLite's "
        "write-ahead log does not hold: two machines could each take a topic for free",
        "Choose a state_dir on a local disk. Who knows that one machine alone ever opens it sets "
        "state_dir_on_network = true.",
        code="JOURNAL_ON_NETWORK",
    )


def mixed(path: Path, what: str) -> JournalError:
    """Of which rows and links differ."""
    return JournalError(
        f"the purge journal {path} is not as its chain tells: {what}; an older {path.name} was put "
        f"beside a newer {path.name}-wal, or something else changed it",
        f"{restore(path)} and see: lowwater runs --verify.",
        code="JOURNAL_BROKEN",
    )


def restore(path: Path) -> str:
    """How a backup is put back, as a sentence begins."""
    return (
        f"Stop every process of lowwater, put a backup of {path.name} back with {path.name}-wal "
        f"and {path.name}-shm removed,"
    )


def rolled_back(path: Path, newest_entry: int, what: str) -> JournalError:
    """Which has lost links that were there."""
    return JournalError(
        f"the purge journal {path} {what}: it was rolled back, as by a backup that was restored, "
        "and what was asked and sent since is missing",
        "Stop every process of lowwater and put the newer one back, with journal.head if the "
        f"folder was moved, and {path.name}-wal and {path.name}-shm removed. If there is none: "
        f"lowwater runs --accept-restored {newest_entry} "
        "cancels what is open in this one, and stops every purge until an approver allows them.",
        code="JOURNAL_ROLLED_BACK",
    )


_SLOT = 128  # bytes; two of them, written in turn, so that one is whole whenever a write is cut off
_FILE_AT = 2 * _SLOT  # which file it is of: written once, with the first head
_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class Head(NamedTuple):
    """Number and hash of the newest link; 0 and "": the chain is empty."""

    seq: int
    hash: str


NOTHING = Head(0, "")


def journal_in(state_dir: Path) -> Path:
    """Where the journal of a state folder is; its head is kept beside it."""
    return state_dir / "journal.sqlite"


def watched_since(now: datetime) -> str:
    """From when on a run counts as watched still, with a second to spare: times in the journal's
    file are compared as texts.
    """
    return format_time((now - timedelta(seconds=1)).replace(microsecond=0))


def all_rest(journal: Path, now: datetime) -> bool:
    """Whether no run of a journal is open or watched any more, by a glance at its file.

    `Journal.stale` looks closer, and takes a tenth of a second to import. False too where the file
    cannot be read so: who opens it as a journal says why.
    """
    asked = "SELECT 1 FROM runs WHERE closed_at IS NULL OR watched_until >= ? LIMIT 1"
    try:
        with closing(sqlite3.connect(f"{journal.absolute().as_uri()}?mode=ro", uri=True)) as file:
            return file.execute(asked, (watched_since(now),)).fetchone() is None
    except sqlite3.Error:
        return False


class HeadFile:
    """`journal.head` beside a journal's file; safe between threads and processes of a machine."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self.path = journal.with_suffix(".head")

    def read(self) -> Head:
        """The head that was kept last, NOTHING when none was. Raises JournalError, OSError."""
        try:
            file = os.open(self.path, _FLAGS & ~os.O_RDWR)
        except FileNotFoundError:
            return NOTHING
        try:
            return max(self._slots(file))
        finally:
            os.close(file)

    def is_of_another(self) -> bool:
        """Whether it was kept of another file than the journal beside it: that is a copy.

        One of an earlier version, which does not say, is of the journal that is written next.
        Raises OSError.
        """
        try:
            file = os.open(self.path, _FLAGS & ~os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            kept = _file(os.pread(file, _SLOT, _FILE_AT))
        finally:
            os.close(file)
        return kept is not None and not kept.may_be(identity(self._journal))

    def advance(self, head: Head) -> None:
        """Keep a newer head, durably; an older one changes nothing: another process was sooner."""
        with self._locked() as file:
            first, second = self._slots(file)
            if head.seq > max(first, second).seq:
                if _file(os.pread(file, _SLOT, _FILE_AT)) is None:
                    os.pwrite(file, self._file_slot(), _FILE_AT)
                os.pwrite(file, _slot(head), 0 if first <= second else _SLOT)
                os.fdatasync(file)

    def replace(self, head: Head) -> None:
        """Keep this head whatever was kept: a person decided so. Raises OSError."""
        new = self.path.with_suffix(".head.new")
        with suppress(FileNotFoundError):
            new.unlink()
        file = self._made(new)
        try:
            os.pwrite(file, _slot(head) + b"\0" * _SLOT + self._file_slot(), 0)
            os.fsync(file)
        finally:
            os.close(file)
        new.replace(self.path)
        make_durable(self.path.parent)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            file = os.open(self.path, _FLAGS)
        except FileNotFoundError:
            file = self._made(self.path)
            # Or a power failure takes the file, and not the journal's mark of it.
            make_durable(self.path.parent)
        try:
            wait_for(file)
            yield file
        finally:
            os.close(file)

    def _made(self, path: Path) -> int:
        """A file of the journal's owner, that those may write who may write the journal: who sweeps
        orphans, as root, tells one of the pages' account.
        """
        file = os.open(path, _FLAGS | os.O_CREAT, 0o600)
        with suppress(OSError):
            journal = self._journal.stat()
            os.fchmod(file, journal.st_mode & 0o777)
            os.fchown(file, journal.st_uid, journal.st_gid)
        return file

    def _file_slot(self) -> bytes:
        if not keeps_files(self.path.parent):
            return b"\0" * _SLOT
        found = identity(self._journal)
        return _sealed(f"{found.inode} {found.born_ns}")

    def _slots(self, file: int) -> tuple[Head, Head]:
        stored = os.pread(file, 2 * _SLOT, 0)
        first, second = _head(stored[:_SLOT]), _head(stored[_SLOT:])
        if first is None and second is None:
            if stored.strip(b"\0"):  # never written by us; one slot alone may be cut off
                raise JournalError(
                    f"{self.path} cannot be read: it was changed by something else",
                    "Find out what did that. If the journal is the newest one: lowwater runs "
                    "--accept-restored with the number of its newest entry.",
                    code="JOURNAL_ROLLED_BACK",
                )
            return NOTHING, NOTHING
        return first or NOTHING, second or NOTHING


def _slot(head: Head) -> bytes:
    return _sealed(f"{head.seq} {head.hash}")


def _head(slot: bytes) -> Head | None:
    """The head in a slot; None: nothing was written there, or not all of it."""
    said = _unsealed(slot)
    return None if said is None else Head(int(said[0]), said[1])


def _file(slot: bytes) -> FileIdentity | None:
    """Which file the head is of; None: it does not say."""
    said = _unsealed(slot)
    return None if said is None else FileIdentity(int(said[0]), int(said[1]))


def _sealed(said: str) -> bytes:
    return f"{said} {_check(said)}\n".encode().ljust(_SLOT, b" ")


def _unsealed(slot: bytes) -> tuple[str, str] | None:
    try:
        first, second, check = slot.decode().split()
    except ValueError:
        return None
    return (first, second) if check == _check(f"{first} {second}") else None


def _check(said: str) -> str:
    return hashlib.sha256(said.encode()).hexdigest()[:16]
