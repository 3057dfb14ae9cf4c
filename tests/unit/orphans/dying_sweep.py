"""A sweep in a process of its own that is killed by SIGKILL at a named point.

The point is `before:X`, `after:X` or `torn:X`, where X is a log entry's kind, `rename` or `remove`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from dashboard.orphans.sweep import quarantine
from dashboard.orphans.sweep.log import SweepLog

_append, _rename = SweepLog.append, quarantine.rename
_remove = quarantine.remove


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _around(point: str, name: str, call: Callable[..., Any], *words: Any, **more: Any) -> Any:
    if point == f"before:{name}":
        _die()
    done = call(*words, **more)
    if point == f"after:{name}":
        _die()
    return done


def arm(point: str) -> None:
    """Make this process die at `point`."""

    def append(log: SweepLog, kind: str, *words: Any) -> Any:
        if point == f"torn:{kind}":
            whole = SweepLog._write
            SweepLog._write = lambda self, data: (whole(self, data[:40]), _die())  # type: ignore
        return _around(point, kind, _append, log, kind, *words)

    def remove(name: str, folder: int, opened: int) -> None:
        if point == "half:remove":
            os.unlink(sorted(os.listdir(opened))[0], dir_fd=opened)
            _die()
        _around(point, "remove", _remove, name, folder, opened)

    SweepLog.append = append  # type: ignore[method-assign]
    quarantine.rename = lambda *words: _around(point, "rename", _rename, *words)
    quarantine.remove = remove


def killed(act: Callable[[], Any], point: str) -> None:
    """Run `act` in a child that dies at `point`; AssertionError when it lives."""
    child = os.fork()
    if child == 0:
        try:
            arm(point)
            act()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
