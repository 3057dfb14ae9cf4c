"""Reads and writes the files that flags name; a failure names the file and the next step."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dashboard.core.errors import PlanError, UsageError


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
    with _named(path):
        target = Path(path)
        if target.is_dir():
            raise _unwritable(path, "it is a folder")
        _check_parent(path, target)


def check_folder(path: str, ours: Collection[str]) -> None:
    """Raise UsageError before any work is done for a folder that may not be written.

    One that is there is replaced only when nothing but `ours` lies in it (FOLDER_TAKEN).
    """
    with _named(path):
        target = Path(path).resolve()
        _check_parent(path, target)
        if not target.is_dir():
            if target.exists():
                raise _unwritable(path, "it is a file, and this format needs a folder or a .zip")
            return
        strangers = sorted(entry.name for entry in target.iterdir() if entry.name not in ours)
    if strangers:
        raise UsageError(
            f"{path} holds other files: {strangers[0]}",
            "Name a new folder, or one that holds an earlier report of this format alone.",
            code="FOLDER_TAKEN",
        )


@contextmanager
def _named(path: str) -> Iterator[None]:
    """A name that no file can have (too long, a link to itself) is the operator's to correct."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise _unwritable(path, getattr(error, "strerror", None) or str(error)) from error


def _check_parent(path: str, target: Path) -> None:
    if not target.parent.is_dir():
        raise _unwritable(path, f"there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise _unwritable(path, f"no right to write to {target.parent}")


def write_text(path: str, text: str) -> None:
    """Replace the file as a whole: a reader sees the old or the new text. Raises UsageError."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: str, body: bytes) -> None:
    """Replace the file as a whole: a reader sees the old or the new one. Raises UsageError."""
    temporary = Path(f"{path}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_bytes(body)
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, str(error.strerror)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_folder(path: str, contents: Iterable[tuple[str, bytes]]) -> None:
    """Make or replace the folder as a whole, of `(name, content)`. Raises UsageError.

    What cannot be finished leaves the old folder where it was. `check_folder` comes first.
    """
    target = Path(path).resolve()
    token = secrets.token_hex(4)
    new, old = (target.with_name(f"{target.name}.{token}.{end}") for end in ("tmp", "old"))
    try:
        new.mkdir()
        for name, body in contents:
            (new / name).write_bytes(body)
        if target.exists():
            target.rename(old)
        try:
            new.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
    except OSError as error:
        raise _unwritable(path, str(error.strerror)) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)


def _unwritable(path: str, reason: str) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {reason}",
        "Name a file in a folder that exists and that you may write to.",
        code="FILE_UNWRITABLE",
    )
