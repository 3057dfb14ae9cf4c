"""A log dir on a slow disk, without a device: a preloaded library paces the writes into a folder.

The wait is inside the broker's own write calls, where a saturated device would make it wait.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_SOURCE = Path(__file__).with_name("slow_disk.c")
_SIZE = 4096


class SlowDisk:
    """One folder at a time is slow, in every process that was started with `environ`."""

    def __init__(self, folder: Path) -> None:
        """Compiles the library into `folder` with the C compiler `cc`."""
        library = folder / "slow_disk.so"
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        self._control = folder / "slow_disk.control"
        self._control.write_bytes(bytes(_SIZE))
        self.environ: Mapping[str, str] = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "SLOW_DISK": str(self._control),
        }

    @contextmanager
    def slow(self, log_dir: Path, bytes_per_second: int) -> Iterator[None]:
        """While the block runs, all writes into `log_dir` together go that fast."""
        self._set(4, bytes(log_dir.resolve()).ljust(_SIZE - 4, b"\0"))
        self._set(0, struct.pack("=I", bytes_per_second))
        try:
            yield
        finally:
            self._set(0, bytes(4))

    def _set(self, at: int, value: bytes) -> None:
        with self._control.open("r+b") as control:
            control.seek(at)
            control.write(value)
