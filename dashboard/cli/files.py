"""Reads and writes the files that flags name; a failure names the file and the next step."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from dashboard.errors import PlanError, UsageError


def read_text(path: str) -> str:
    """The UTF-8 text of a plan or offsets file. Raises PlanError FILE_UNREADABLE."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise PlanError(
            f"{path} cannot be read: {reason}",
            "Check the path and its rights.",
            code="FILE_UNREADABLE",
        ) from error


def check_writable(path: str) -> None:
    """Raise UsageError before any work is done for a file that could not be written."""
    target = Path(path)
    if target.is_dir():
        raise _unwritable(path, "it is a folder")
    if not target.parent.is_dir():
        raise _unwritable(path, f"there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise _unwritable(path, f"no right to write to {target.parent}")


def write_text(path: str, text: str) -> None:
    """Replace the file as a whole: a reader sees the old or the new text. Raises UsageError."""
    temporary = Path(f"{path}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, str(error.strerror)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _unwritable(path: str, reason: str) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {reason}",
        "Name a file in a folder that exists and that you may write to.",
        code="FILE_UNWRITABLE",
    )
