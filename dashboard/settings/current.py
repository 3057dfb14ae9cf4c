"""The settings as their file says now, not at the start: of a process that runs for long, and
whether they switch every purge off.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from dashboard.core.errors import LowwaterError, SettingsError
from dashboard.settings.people import gone, same_sign_in
from dashboard.settings.settings import Settings, load, source_of

# A journal and a store are open by then: elsewhere lie other switches, runs and memories.
_PLACES = ("data", "state_dir")


class CurrentSettings:
    """Settings that are read again whenever they are asked for. Safe between threads.

    Services, pages and analyses ask before each look, so that a policy, a declaration, a replay
    window or a limit that somebody writes counts at once; so does a file that was not there when
    the process began, and a client config whose path has stayed (a password that was changed).
    `started` are those that it began with, flags included.
    """

    def __init__(self, started: Settings, environ: Mapping[str, str] = os.environ) -> None:
        """Raises SettingsError when the file is wrong by now."""
        self.started = started
        self._environ = environ
        self._lock = threading.Lock()
        self._texts: _Texts | None = None
        self._found = self._first = started
        self._source = started.source
        if started.source is not None or started.looked_for:
            self._texts = None if started.source is None else _texts(started.source, started)
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
            texts = _texts(source, self._found)
            if None in texts or texts != self._texts:
                self._texts = None
                self._found = self._read(source)
                self._texts = texts if texts == _texts(source, self._found) else None
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


_Texts = tuple[bytes | None, ...]


def _texts(source: Path, found: Settings) -> _Texts:
    """What was read for them: their file, and the client configs that it names."""
    return tuple(_content(file) for file in (source, *found.client_configs))


def _content(source: Path) -> bytes | None:
    try:
        return source.read_bytes()
    except OSError:  # `load` says why
        return None


_KEPT_SECONDS = 1.0


def why_read_only(settings: Settings, environ: Mapping[str, str] = os.environ) -> str | None:
    """Why the settings switch every purge off; None: they do not.

    Their file is read again: whoever writes this key there in an emergency stops what runs
    already, a run in flight before its next request; so does a file that was not there when it
    began. In doubt purges are off: when the file is gone or cannot be seen, or nothing could be
    started with it any more.
    """
    source = settings.source
    try:
        source = source_of(settings, environ)
        if source is None:
            return "read_only of the settings is on" if settings.read_only else None
        found = load(source, environ)
    except LowwaterError as error:
        return wrong(source, error)
    return f"read_only of the settings ({source}) is on" if found.read_only else None


def wrong(source: Path | None, error: LowwaterError) -> str:
    """Why nothing is purged while the settings' file cannot be used."""
    return (
        f"the settings file {source or 'lowwater.toml'} is wrong by now, so every purge is off: "
        f"{error.message}"
    )


def each_second(
    settings: Settings,
    clock: Callable[[], float] = time.monotonic,
    environ: Mapping[str, str] = os.environ,
) -> Callable[[], str | None]:
    """Asks `why_read_only`, and a second later anew: for those who ask before every request."""
    at, said = clock(), why_read_only(settings, environ)

    def asked() -> str | None:
        nonlocal at, said
        if not 0 <= clock() - at < _KEPT_SECONDS:
            at, said = clock(), why_read_only(settings, environ)
        return said

    return asked


def either(*asked: Callable[[], str | None]) -> Callable[[], str | None]:
    """The first reason that any of them gives: where one says stop, purges stop."""
    return lambda: next((said for ask in asked if (said := ask()) is not None), None)
