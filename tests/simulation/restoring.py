"""A journal that is put back from an earlier copy, after the run in it was cancelled."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

NAME = "journal.sqlite"


def copied(folder: Path, into: Path) -> None:
    """A backup of the state folder, as it is at this moment."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    source, target = sqlite3.connect(folder / NAME), sqlite3.connect(into / NAME)
    with source, target:
        source.backup(target)
    source.close()
    target.close()
    for file in _beside(folder):
        shutil.copy(file, into / file.name)


def half_sent(folder: Path) -> bool:
    """Whether some partition was sent, and another one is still to be."""
    db = sqlite3.connect(folder / NAME)
    states = {state for (state,) in db.execute("SELECT state FROM run_partitions")}
    db.close()
    # Not by what the last look held back: a run that sent nothing ends with the life of its plan.
    return "pending" in states and not states <= {"pending", "not_done"}


def put_back(folder: Path, copy: Path, *, alone: bool) -> None:
    """The copy takes the journal's place, in the file that was there, as when a disk goes back to
    an earlier state; `alone`: what lies beside it stays as it is.
    """
    for ending in ("-wal", "-shm"):
        (folder / (NAME + ending)).unlink(missing_ok=True)
    shutil.copy(copy / NAME, folder / NAME)
    if not alone:
        for file in _beside(copy):
            shutil.copy(file, folder / file.name)


def _beside(folder: Path) -> list[Path]:
    journal = {NAME, f"{NAME}-wal", f"{NAME}-shm"}
    return [f for f in sorted(folder.iterdir()) if f.is_file() and f.name not in journal]
