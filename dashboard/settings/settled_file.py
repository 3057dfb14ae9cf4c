"""A settings file once nobody writes it: half a file is valid TOML, and lacks what it forbids."""

from __future__ import annotations

import time
from pathlib import Path

from dashboard.core.errors import SettingsError
from dashboard.core.network_folders import is_local

QUIET_SECONDS = 0.2  # so long nobody has written it
_MOST_SECONDS = 2.0
_STEP_SECONDS = 0.05


def read_settled(file: Path) -> str:
    """Its text, when nothing of it has changed for QUIET_SECONDS; at once, where that was long ago.

    Raises SettingsError where it changes again and again, OSError, UnicodeDecodeError.
    """
    began = since = time.monotonic()
    seen: tuple[int, ...] | None = None
    while True:
        stamp = _stamp(file)
        content = file.read_bytes()
        if stamp != seen:
            seen, since = stamp, time.monotonic()
        if stamp == _stamp(file) and (_passed(since) or _is_old(file, stamp)):
            return content.decode("utf-8")
        if time.monotonic() - began > _MOST_SECONDS:
            raise SettingsError(
                f"the settings file {file} changes again and again",
                "Write it whole: to a file beside it, renamed then.",
            )
        time.sleep(_STEP_SECONDS)


def _stamp(file: Path) -> tuple[int, ...]:
    told = file.stat()
    return told.st_mtime_ns, told.st_size, told.st_ino


def _is_old(file: Path, stamp: tuple[int, ...]) -> bool:
    """By the clock that wrote it, which is this host's own on its own disks alone: by a server's
    that is behind, or another machine's, what is being written looks old.
    """
    return time.time() - stamp[0] / 1e9 >= QUIET_SECONDS and is_local(file)


def _passed(since: float) -> bool:
    return time.monotonic() - since >= QUIET_SECONDS
