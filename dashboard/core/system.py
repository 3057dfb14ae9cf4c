"""What is asked of the operating system that Python's own modules do not offer."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

# Loaded before any fork: the child of a threaded parent must not load libraries.
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

_NO_FILES_NAME = (errno.ENAMETOOLONG, errno.ELOOP)  # too long, or a link to itself


def lies_at(path: Path, *, follow: bool = True) -> os.stat_result | None:
    """What lies at a path; None: surely nothing, as by a name that no file can have.

    Raises OSError where that cannot be told: a folder on the way is closed to us, or its disk does
    not answer. `Path.exists` raises it too, or takes it for nothing, by Python's version.
    """
    try:
        return path.stat() if follow else path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        if error.errno in _NO_FILES_NAME:
            return None
        raise


def leads_to_nothing(path: Path) -> Path | None:
    """The link on the way, or at its end, whose target is not there: of a disk not mounted now."""
    for here in (path, *path.parents):
        try:
            here.stat()
        except FileNotFoundError:
            if here.is_symlink():
                return here
        except (OSError, ValueError):  # a file on the way, a loop, no name at all
            return None
        else:
            return None
    return None


def make_durable(folder: Path) -> None:
    """Wait until the disk has the names in a folder: a file's own fsync leaves a power cut the
    name. Raises OSError.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
