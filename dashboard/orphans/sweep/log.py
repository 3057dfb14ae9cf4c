"""The sweep's own log: JSON lines, each chained to the one before, durable before an act begins.

A line's hash is the SHA-256 of the canonical JSON list `[previous_hash, seq, at, kind, body]`, as
in the purge journal. The log lies in the quarantine that it tells of, so both survive together.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.core.canonical import canonical, digest, parse_json
from dashboard.core.clock import format_time
from dashboard.core.errors import JournalError

NAME = "sweep.log"
_FIRST_HASH = "0" * 64
_AS_IT_IS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe would never answer
Body = Mapping[str, str | int | bool | None]
_KEYS = {"seq", "at", "kind", "body", "previous_hash", "hash"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. `body` tells of one folder, by the `item` that holds it in the quarantine."""

    seq: int
    at: str
    kind: str
    body: Mapping[str, Any]
    hash: str


@dataclass(frozen=True, slots=True)
class LogState:
    """What a log holds: its entries, each break of the chain, and bytes of a torn last line."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...]
    whole_bytes: int  # up to the end of the last whole line
    torn_bytes: int


def read(folder: int, where: str) -> LogState:
    """The log of the quarantine open as `folder`; empty where there is none.

    Raises JournalError SWEEP_LOG_UNWRITABLE when it cannot be read, or may be somebody else's.
    """
    try:
        file = os.open(NAME, os.O_RDONLY | _AS_IT_IS, dir_fd=folder)
        with os.fdopen(file, "rb") as opened:
            _refuse_foreign(file)
            raw = opened.read()
    except FileNotFoundError:
        return LogState((), (), 0, 0)
    except OSError as error:
        raise _unwritable(where, error) from error
    whole = raw.rfind(b"\n") + 1
    entries: list[Entry] = []
    problems: list[str] = []
    previous = _FIRST_HASH
    for number, line in enumerate(raw[:whole].split(b"\n")[:-1], start=1):
        entry, problem, previous = _read_line(number, line, previous)
        if entry is not None:
            entries.append(entry)
        problems += problem
    return LogState(tuple(entries), tuple(problems), whole, len(raw) - whole)


def _read_line(number: int, line: bytes, previous: str) -> tuple[Entry | None, list[str], str]:
    try:
        found = parse_json(line)
        if not isinstance(found, dict) or set(found) != _KEYS or not _typed(found):
            raise ValueError
        actual = digest([found[key] for key in ("previous_hash", "seq", "at", "kind", "body")])
    except ValueError:
        return None, [f"line {number} is no entry"], previous
    problems = []
    if found["seq"] != number:
        problems.append(f"line {number} holds entry {found['seq']}: lines are missing or doubled")
    if found["previous_hash"] != previous:
        problems.append(f"entry {found['seq']} does not follow the one before it")
    if actual != found["hash"]:
        problems.append(f"entry {found['seq']} was changed after it was written")
    entry = Entry(found["seq"], found["at"], found["kind"], found["body"], found["hash"])
    return entry, problems, found["hash"]


def _typed(found: Mapping[str, Any]) -> bool:
    texts = all(isinstance(found[key], str) for key in ("at", "kind", "previous_hash", "hash"))
    return texts and isinstance(found["seq"], int) and isinstance(found["body"], dict)


class SweepLog:
    """The log opened for writing by the one sweep that holds the quarantine's lock."""

    def __init__(self, folder: int, where: str, now: datetime) -> None:
        """Opens or makes it, and cuts off a line that a killed sweep left torn.

        An act is begun only once its line is whole and on the disk: a torn one stands for nothing
        that was done. Raises JournalError SWEEP_LOG_BROKEN or SWEEP_LOG_UNWRITABLE.
        """
        self._where = where
        try:
            found = read(folder, where)
            if found.problems:
                raise broken(where, found.problems)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | _AS_IT_IS
            self._file = os.open(NAME, flags, 0o600, dir_fd=folder)
            _refuse_foreign(self._file)
            os.fsync(folder)
        except OSError as error:
            raise _unwritable(where, error) from error
        self.entries = list(found.entries)
        if found.torn_bytes:
            self._cut(found, now)

    def close(self) -> None:
        os.close(self._file)

    def append(self, kind: str, body: Body, now: datetime) -> Entry:
        """Add one line and wait until the disk has it. Raises JournalError."""
        last = self.entries[-1] if self.entries else None
        seq, previous = (last.seq + 1, last.hash) if last else (1, _FIRST_HASH)
        at = format_time(now)
        link = digest([previous, seq, at, kind, body])
        line = canonical(
            {"seq": seq, "at": at, "kind": kind, "body": body,
             "previous_hash": previous, "hash": link}
        )  # fmt: skip
        try:
            self._write(f"{line}\n".encode())
        except OSError as error:
            raise _unwritable(self._where, error) from error
        entry = Entry(seq, at, kind, dict(body), link)
        self.entries.append(entry)
        return entry

    def _write(self, data: bytes) -> None:
        size = os.fstat(self._file).st_size
        try:
            while data:
                data = data[os.write(self._file, data) :]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, size)  # a full disk must not leave half a line
            raise

    def _cut(self, found: LogState, now: datetime) -> None:
        try:
            os.ftruncate(self._file, found.whole_bytes)
            os.fsync(self._file)
        except OSError as error:
            raise _unwritable(self._where, error) from error
        self.append("repaired", {"torn_bytes": found.torn_bytes}, now)


def _unwritable(where: str, error: OSError) -> JournalError:
    return JournalError(
        f"the sweep's log in {where} cannot be read or written: {error.strerror or error}",
        "Free disk space or correct its rights; no folder is touched without its log.",
        code="SWEEP_LOG_UNWRITABLE",
    )


def _refuse_foreign(file: int) -> None:
    """A link, a pipe or another user's file in its place was planted. Raises OSError."""
    state = os.fstat(file)
    if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1 or state.st_uid != os.geteuid():
        raise OSError(errno.EPERM, f"{NAME} is no file of this user alone")


def broken(where: str, problems: tuple[str, ...]) -> JournalError:
    """The error for a log whose chain does not hold."""
    return JournalError(
        f"the sweep's log in {where} does not verify: {problems[0]}",
        f"Find out who changed it. Nothing is moved or deleted there until then; {NAME} moved "
        "aside starts a new log, which knows none of the folders that lie there.",
        code="SWEEP_LOG_BROKEN",
    )
