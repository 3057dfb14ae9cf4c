"""The settings of a process that runs for long: what their file says now, not at the start."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dashboard.core.errors import SettingsError
from dashboard.core.network_folders import is_local
from dashboard.settings.people import gone, same_sign_in
from dashboard.settings.settings import Settings, load, source_of

# A journal and a store are open by then: elsewhere lie other switches, runs and memories.
_PLACES = ("data", "state_dir")


class CurrentSettings:
    """Settings that are read again whenever they are asked for. Safe between threads.

    Services, pages and analyses ask before each look, so that a policy, a declaration, a replay
    window or a limit that somebody writes counts at once; so does a file that was not there when
    the process began. `started` are those that it began with, flags included.
    """

    def __init__(self, started: Settings, environ: Mapping[str, str] = os.environ) -> None:
        """Raises SettingsError when the file is wrong by now."""
        self.started = started
        self._environ = environ
        self._lock = threading.Lock()
        self._text: bytes | None = None
        self._found = self._first = started
        self._source = started.source
        if started.source is not None or started.looked_for:
            self._text = None if started.source is None else _content(started.source)
            self._first = load(started.source, environ)
            self._found = self._here(self._first)

    def get(self) -> Settings:
        """The settings as they are now; `data` and `state_dir` are those of the start.

        Raises SettingsError: the file is gone or wrong, and nobody goes on with what it said
        before; SETTINGS_MOVED where it names another place to work in.
        """
        with self._lock:
            self._source = source = self._source or source_of(self.started, self._environ)
            if source is None:
                return self.started
            text = _content(source)
            if text is None or text != self._text:
                self._text = None
                self._found = self._read(source)
                self._text = text if text == _content(source) else None
            return self._found

    def _read(self, source: Path) -> Settings:
        found = load(source, self._environ)
        for name in _PLACES:
            now, before = getattr(found, name), getattr(self._first, name)
            if now != before:
                raise SettingsError(
                    f"{name} of {source} is {now} by now, and this process works in {before}",
                    "Restart it; or take the change back.",
                    code="SETTINGS_MOVED",
                )
        if self._first.people is not None and found.people is None:
            raise gone(source)  # without the section everybody may do everything
        same_sign_in(source, self._first.people, found.people)
        self._first = replace(self._first, people=found.people)  # one that came does not go either
        return self._here(found)

    def _here(self, found: Settings) -> Settings:
        return replace(found, data=self.started.data, state_dir=self.started.state_dir)


def _content(source: Path) -> bytes | None:
    try:
        return source.read_bytes()
    except OSError:  # `load` says why
        return None


# A settings file once nobody writes it: half a file is valid TOML, and lacks what it forbids.

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
