"""Why nothing is written to a journal: a copy, another user's, rolled back, mixed, on a network.

Inode and birth tell a journal from each copy. Both are on the disk with it, so that reboots, mounts
and `mv` leave them. A device's number is not: LVM, USB, NFS and containers get another one as they
come up. Nor is the inode alone enough: ext4 gives that of a removed file to the next one, which may
be the backup that takes its place.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
import sys
from pathlib import Path
from typing import NamedTuple

from dashboard.core.errors import JournalError
from dashboard.core.network_folders import keeps_files

_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
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
    statx = getattr(_LIBC, "statx", None)
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
