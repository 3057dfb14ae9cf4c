"""Prints results: one JSON object on stdout, or text for people; all else goes to stderr. Reads and
writes the files that flags name; a failure names the file and the next step.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any

from dashboard.core.clock import format_time
from dashboard.core.errors import LowwaterError, PlanError, UsageError
from dashboard.core.visible import Lines, in_lines, visible_cell, visible_json, visible_lines
from dashboard.core.words import binary

INTERRUPTED = 130  # the exit code: as a shell has it of SIGINT
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def prepare_streams() -> None:
    """Make stdout and stderr take any text: what has no UTF-8 form is escaped, as JSON does."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def to_json(value: Any) -> str:
    """Canonical JSON text of a result: no NaN, times as RFC 3339 with Z."""
    # A terminal obeys U+009B and U+202E in JSON as it does in text.
    return visible_json(json.dumps(value, allow_nan=False, ensure_ascii=False, default=_plain))


def emit(value: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print a verb's result; a text of several lines is one of `lines`.

    A reader that went away changes nothing of what was done.
    """
    try:
        _print(value, text, as_json=as_json)
    except BrokenPipeError:
        close_stdout()


def emit_line(value: Mapping[str, Any], text: str, *, as_json: bool) -> None:
    """Print one event of a looping verb. Raises BrokenPipeError, which ends the loop; a full disk
    does not: the line waits in the buffer for the next one, or is lost.
    """
    try:
        _print(value, text, as_json=as_json)
    except BrokenPipeError:
        raise
    except OSError as error:
        if len(to_json(value) if as_json else text) > io.DEFAULT_BUFFER_SIZE:
            with suppress(OSError):
                sys.stdout.write("\n")  # a part of it may stand there: the next begins its own line
        progress(f"an event could not be written: {error.strerror}")


def _print(value: Mapping[str, object], text: str, *, as_json: bool) -> None:
    sys.stdout.write((to_json(value) if as_json else visible_lines(text)) + "\n")
    sys.stdout.flush()


def emit_error(error: LowwaterError, *, as_json: bool) -> None:
    """Print an error: the error object on stdout with --json, else two lines on stderr."""
    if as_json:
        emit(error.to_json(), "", as_json=True)
        return
    progress(in_lines([f"error: {error.message}", f"next: {error.next_step}"]))


def progress(text: str) -> None:
    """A line, or `lines`, for the person who waits; lost without harm when stderr is closed,
    or on a full disk.
    """
    try:
        sys.stderr.write(visible_lines(text) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, RuntimeError):  # the last: a signal came amid a line
        return


def end_stdout() -> None:
    """The last flush, at the end of a verb: what a loop could not write on a full disk is lost."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # a stream that is closed
        with suppress(OSError, ValueError):
            close_stdout()


def close_stdout() -> None:
    """Send the rest of stdout nowhere, so that the interpreter's last flush cannot fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Lines:
    """Rows as aligned text with a header; numbers stand right, unknown is `-`."""
    cells = [[cell(row.get(name)) for name in columns] for row in rows]
    widths = [
        max([len(name), *(len(line[at]) for line in cells)]) for at, name in enumerate(columns)
    ]
    right = [any(_right(row.get(name)) for row in rows) for name in columns]
    return in_lines(
        "  ".join(
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in [list(columns), *cells]
    )


def cell(value: Any) -> str:
    """A value as one table cell."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, list | tuple):
        return ",".join(cell(item) for item in value) or "-"
    if isinstance(value, Mapping):
        return cell(value.get("name") or to_json(value))
    return visible_cell(str(value))


def size(count: int | None) -> str:
    """Bytes for people: `41.2 GiB`; unknown is `not measurable`."""
    if count is None:
        return "not measurable"
    return binary(count)


def size_cell(count: int | None) -> str | None:
    """The same in a table, whose cell stays empty where it is unknown."""
    return None if count is None else size(count)


def _right(value: Any) -> bool:
    """Whether a value is a number, also one with a unit behind it."""
    if isinstance(value, str):
        return value.rsplit(" ", 1)[-1] in _UNITS
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """What json cannot say by itself; anything unforeseen is an error, not a guess."""
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


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


def check_apart(flag: str, path: str, other_flag: str, other: str | None) -> None:
    """Raise UsageError where a file that is written is another flag's, by any of its names: what
    lies there would be lost.
    """
    if other is not None and _same_file(path, other):
        raise UsageError(
            f"{flag} {path} is the file of {other_flag}, which would be lost",
            f"Name another file with {flag}.",
        )


def _same_file(path: str, other: str) -> bool:
    """Also where it is not there yet, or where two names of it are hard links."""
    with suppress(OSError, ValueError, RuntimeError):  # a name that no file can have, a loop
        if Path(path).resolve() == Path(other).resolve():
            return True
        return Path(path).samefile(other)
    return path == other


def forget(path: str) -> None:
    """Remove the file that is to be written, before any work is done: what an earlier call wrote
    there must not be taken for the answer of one that is refused. Raises UsageError.
    """
    with _named(path):
        target = Path(path)
        if target.is_file():
            target.unlink(missing_ok=True)


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
