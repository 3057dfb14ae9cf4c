"""One process at a time, by flock(2): a lock ends with its process, however that ends."""

from __future__ import annotations

import fcntl


def take(file: int) -> bool:
    """Take an open file or folder, by its descriptor, for this process alone; False: another has
    it. Raises OSError where the file system knows no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for(file: int) -> None:
    """Take it once no other process has it. Raises OSError."""
    fcntl.flock(file, fcntl.LOCK_EX)
