"""Reads the value of `--log-dirs` as the broker reads its `log.dirs`."""

from __future__ import annotations

import re

from dashboard.core.errors import UsageError
from dashboard.core.visible import is_unicode

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def parse_log_dirs(text: str, *, here: str | None = None) -> tuple[str, ...]:
    """Absolute paths out of `A,B`, as the broker spells them; doubled slashes fall together.

    `here` is what a relative path starts from; without it (the paths are another host's) a
    relative one is refused. Raises UsageError LOG_DIRS_INVALID.
    """
    found: list[str] = []
    for word in text.split(","):
        path = word.strip()
        if not path:
            raise _invalid(f"'{text}' names an empty path")
        if not path.startswith("/"):
            if here is None:
                raise _invalid(f"'{path}' is not an absolute path")
            path = f"{here}/{path.removeprefix('./')}"
        path = re.sub("/+", "/", path).rstrip("/") or "/"
        if _CONTROL.search(path) or not is_unicode(path):
            raise _invalid(f"{path!r} holds a character that no log dir can have")
        if path in found:
            raise _invalid(f"'{path}' is named twice")
        found.append(path)
    return tuple(found)


def _invalid(reason: str) -> UsageError:
    return UsageError(
        f"--log-dirs: {reason}",
        "Write what the broker's log.dirs says: absolute paths with commas between them.",
        code="LOG_DIRS_INVALID",
    )
