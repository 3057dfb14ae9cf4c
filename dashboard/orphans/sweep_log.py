"""The sweep's own log: JSON lines, each chained to the one before, durable before an act begins.

A line's hash is the SHA-256 of the canonical JSON list `[previous_hash, seq, at, kind, body]`, as
in the purge journal. The log lies in the quarantine that it tells of, so both survive together.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.canonical import parse_json
from dashboard.clock import format_time
from dashboard.errors import JournalError

NAME = "sweep.log"
_FIRST_HASH = "0" * 64
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


def read(folder: int) -> LogState:
    """The log of the quarantine open as `folder`; empty where there is none. Raises OSError."""
    try:
        file = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return LogState((), (), 0, 0)
    with os.fdopen(file, "rb") as opened:
        raw = opened.read()
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
        actual = _hash(*(found[key] for key in ("previous_hash", "seq", "at", "kind", "body")))
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
            found = read(folder)
            if found.problems:
                raise broken(where, found.problems)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(NAME, flags, 0o600, dir_fd=folder)
            os.fsync(folder)
        except OSError as error:
            raise self._unwritable(error) from error
        self.entries = list(found.entries)
        if found.torn_bytes:
            self._cut(found, now)

    def close(self) -> None:
        os.close(self._file)

    def append(self, kind: str, body: Mapping[str, Any], now: datetime) -> Entry:
        """Add one line and wait until the disk has it. Raises JournalError."""
        last = self.entries[-1] if self.entries else None
        seq, previous = (last.seq + 1, last.hash) if last else (1, _FIRST_HASH)
        at = format_time(now)
        link = _hash(previous, seq, at, kind, body)
        line = _canonical(
            {"seq": seq, "at": at, "kind": kind, "body": body,
             "previous_hash": previous, "hash": link}
        )  # fmt: skip
        try:
            self._write(f"{line}\n".encode())
        except OSError as error:
            raise self._unwritable(error) from error
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
            raise self._unwritable(error) from error
        self.append("repaired", {"torn_bytes": found.torn_bytes}, now)

    def _unwritable(self, error: OSError) -> JournalError:
        return JournalError(
            f"the sweep's log in {self._where} cannot be written: {error.strerror or error}",
            "Free disk space or correct its rights; no folder is touched without its log.",
            code="SWEEP_LOG_UNWRITABLE",
        )


def broken(where: str, problems: tuple[str, ...]) -> JournalError:
    """The error for a log whose chain does not hold."""
    return JournalError(
        f"the sweep's log in {where} does not verify: {problems[0]}",
        f"Find out who changed it. Nothing is moved or deleted there until then; {NAME} moved "
        "aside starts a new log, which knows none of the folders that lie there.",
        code="SWEEP_LOG_BROKEN",
    )


def _hash(*parts: Any) -> str:
    return hashlib.sha256(_canonical(list(parts)).encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
