"""A folder in memory for what tests write: they save each file to its disk (fsync) as the product
does, and wait for it more than half of their time. What they kill dies as well there.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import psutil

SHARED_MEMORY = Path("/dev/shm")
_OTHERS = (SHARED_MEMORY, Path("/var/tmp"))
# A whole run leaves about 1 GiB; brokers, Spark and browsers want the rest of the memory.
_LEAST_FREE = 4 << 30
_LEAST_AVAILABLE = 10 << 30


def use() -> None:
    """Make it the folder of all temporary files, here and in children, where memory is plenty and
    nobody chose another one (TMPDIR).
    """
    if "TMPDIR" not in os.environ and _is_roomy():
        os.environ["TMPDIR"] = tempfile.tempdir = str(SHARED_MEMORY)


def _is_roomy() -> bool:
    if not os.access(SHARED_MEMORY, os.W_OK):
        return False
    disk = os.statvfs(SHARED_MEMORY)
    free = disk.f_bavail * disk.f_frsize
    return free >= _LEAST_FREE and psutil.virtual_memory().available >= _LEAST_AVAILABLE


def elsewhere(path: Path) -> Path | None:
    """A folder on another file system than `path`; None where this machine has none."""
    others = (place for place in _OTHERS if os.access(place, os.W_OK))
    return next((p for p in others if p.stat().st_dev != path.stat().st_dev), None)
