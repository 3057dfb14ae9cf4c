"""Checks the chains of the logs that sweeps have written beside a broker's log dirs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dashboard.core.errors import JournalError
from dashboard.orphans.sweep import sweep_log
from dashboard.orphans.sweep.sweep_log import LogState
from dashboard.orphans.sweep.sweep_places import Place, open_log_dirs, quarantine_of
from dashboard.orphans.sweep.sweep_quarantine import opened_quarantine
from dashboard.orphans.sweep.sweep_report import Refusal
from dashboard.orphans.sweep.sweep_site import Options


@dataclass(frozen=True, slots=True)
class Checked:
    """One log, and each place where its chain does not hold."""

    path: Path
    entries: int
    problems: tuple[str, ...]
    torn_bytes: int

    def to_json(self) -> dict[str, Any]:
        """`ok` is whether the chain holds; a torn last line is the mark of a killed sweep."""
        return {
            "log": str(self.path),
            "ok": not self.problems,
            "entries": self.entries,
            "problems": list(self.problems),
            "torn_bytes": self.torn_bytes,
        }

    @property
    def text(self) -> str:
        """One line for people."""
        torn = f", {self.torn_bytes} bytes torn off by a killed sweep" if self.torn_bytes else ""
        said = "; ".join(self.problems) or "verified"
        return f"{self.path}: {self.entries} entries{torn}: {said}"


def verify(options: Options) -> list[Checked]:
    """Each quarantine's log; those of log dirs without one are left out."""
    return [_checked(place.path / sweep_log.NAME, state) for place, state in read_logs(options)]


def read_logs(options: Options) -> list[tuple[Place, LogState]]:
    """What each quarantine's log holds, sound or not. Raises LogDirError, JournalError."""
    places: dict[Path, Place] = {}
    with open_log_dirs(options.log_dirs) as log_dirs:
        reals = [str(log_dir.real) for log_dir in log_dirs]
        for log_dir in log_dirs:
            try:
                place = quarantine_of(log_dir, options.quarantine_dirs, reals)
                places[place.path] = place
            except Refusal:
                continue
    return [(places[path], _read(places[path])) for path in sorted(places) if os.path.lexists(path)]


def broken_error(found: Sequence[Checked]) -> JournalError | None:
    """The error for the first log that does not verify."""
    bad = next((log for log in found if log.problems), None)
    return None if bad is None else sweep_log.broken(str(bad.path.parent), bad.problems)


def _read(place: Place) -> LogState:
    with opened_quarantine(place) as folder:
        return sweep_log.read(folder, str(place.path))


def _checked(log: Path, state: LogState) -> Checked:
    return Checked(log, len(state.entries), state.problems, state.torn_bytes)
