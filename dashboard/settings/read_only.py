"""Whether the settings switch every purge off now: the file counts as it is, not as it was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from dashboard.core.errors import LowwaterError
from dashboard.settings.settings import Settings, load, source_of

_KEPT_SECONDS = 1.0


def why(settings: Settings, environ: Mapping[str, str] = os.environ) -> str | None:
    """Why the settings switch every purge off; None: they do not.

    Their file is read again: whoever writes this key there in an emergency stops what runs
    already, a run in flight before its next request; so does a file that was not there when it
    began. In doubt purges are off: when the file is gone, or nothing could be started with it any
    more.
    """
    source = source_of(settings, environ)
    if source is None:
        return "read_only of the settings is on" if settings.read_only else None
    try:
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
    """Asks `why`, and a second later anew: for those who ask before every request."""
    at, said = clock(), why(settings, environ)

    def asked() -> str | None:
        nonlocal at, said
        if not 0 <= clock() - at < _KEPT_SECONDS:
            at, said = clock(), why(settings, environ)
        return said

    return asked


def either(*asked: Callable[[], str | None]) -> Callable[[], str | None]:
    """The first reason that any of them gives: where one says stop, purges stop."""
    return lambda: next((said for ask in asked if (said := ask()) is not None), None)
