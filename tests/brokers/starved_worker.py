"""A purge worker whose state folder is full from a chosen moment on.

A folder that is a mount of its own is filled to the last byte; elsewhere no file of this process
may grow any more (RLIMIT_FSIZE), which the journal meets in the same place.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from dashboard.cluster.live import LiveCluster
from dashboard.purge.jobs import worker
from dashboard.purge.journal.journal import Journal

_send = LiveCluster.delete_records
_intend = Journal.intend
BALLAST = "ballast"


def fill(folder: Path) -> None:
    """Write until not one byte more fits."""
    size = 1 << 20
    with (folder / BALLAST).open("ab", buffering=0) as file:
        while size:
            with suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass
            size //= 2


def _starve(folder: Path) -> None:
    if os.path.ismount(folder):
        fill(folder)
    else:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))


def _intend_when_full(journal: Journal, *args: Any, **kwargs: Any) -> Any:
    _starve(journal.file.path.parent)
    return _intend(journal, *args, **kwargs)


def _send_and_fill(live: LiveCluster, *args: Any, **kwargs: Any) -> Any:
    answer = _send(live, *args, **kwargs)
    _starve(Path(sys.argv[sys.argv.index("--state-dir") + 1]))
    return answer


if __name__ == "__main__":
    if sys.argv[1] == "before-the-intent":
        Journal.intend = _intend_when_full  # type: ignore[method-assign]
    elif sys.argv[1] == "after-the-answer":
        LiveCluster.delete_records = _send_and_fill  # type: ignore[method-assign]
    sys.exit(worker.main(sys.argv[2:]))
