"""The newest link of the chain, kept beside the journal: a file that was rolled back is told.

A journal out of a backup verifies by itself, and forgets every cancel since. Its head is written
here after each commit, so that it may lag behind the file, when a process dies in between, and
never leads: one that leads tells of links that are gone. It says too which file it was kept of: a
copy of both, looked at beside the original, forgets what was asked there since.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from dashboard.core.errors import JournalError
from dashboard.core.network_folders import keeps_files
from dashboard.purge.journal.journal_refusals import FileIdentity, identity

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
        self._keep_name()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            file = os.open(self.path, _FLAGS)
        except FileNotFoundError:
            file = self._made(self.path)
            self._keep_name()  # or a power failure takes the file, and not the journal's mark of it
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
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

    def _keep_name(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

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
