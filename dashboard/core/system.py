"""What is asked of the operating system that Python's own modules do not offer."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# Loaded before any fork: the child of a threaded parent must not load libraries.
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def make_durable(folder: Path) -> None:
    """Wait until the disk has the names in a folder: a file's own fsync leaves a power cut the
    name. Raises OSError.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
