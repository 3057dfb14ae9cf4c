"""Calls the command line in this process, and tells what came out and what changed on disk."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from dashboard.cli.main import main
from tests.bad_inputs.case import Case
from tests.bad_inputs.world import World

# SQLite's own: made by any reader of a journal in WAL mode, and gone with the last one.
# A collect that failed leaves its error for the pages, which is all that it may change.
PASSING = (
    "state/journal.sqlite-wal",
    "state/journal.sqlite-shm",
    "data/sAmpLeCLusTer0000000x1/attempt.json",
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended."""

    exit_code: int
    out: str
    err: str


def call(case: Case, world: World, capsys: pytest.CaptureFixture[str], *, as_json: bool) -> Ending:
    """Run the words of a case in the working directory."""
    words = [world.words(word) for word in shlex.split(case.words)]
    capsys.readouterr()
    exit_code = main([*words, *(["--json"] if as_json else [])])
    return Ending(exit_code, *capsys.readouterr())


def digests(root: Path | str = ".") -> dict[str, str]:
    """Each file, link and folder under a folder: its content's hash, or what kind it is.

    What goes while it is read is left out, as SQLite's own files are when a connection ends.
    """
    found: dict[str, str] = {}
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = f"{folder}/{name}"
            try:
                mode = os.lstat(path).st_mode
                is_file = stat.S_ISREG(mode)
                said = hashlib.sha256(Path(path).read_bytes()).hexdigest() if is_file else str(mode)
            except FileNotFoundError:
                continue
            found[path[len(str(root)) + 1 :]] = said
    return found


def differing(
    before: Mapping[str, str], after: Mapping[str, str], allowed: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Names that are in one alone, or not the same in both; not those that match `allowed`."""
    names = {name for name, _ in before.items() ^ after.items()}
    return tuple(sorted(n for n in names if not any(fnmatch(n, glob) for glob in allowed)))


def mend(room: Path, sound: Path) -> None:
    """Make a folder what the sound one is: only what differs is removed and copied."""
    for name in sorted(differing(digests(room), digests(sound)), key=len):
        here, there = room / name, sound / name
        if here.is_symlink() or here.is_file():
            here.unlink()
        elif here.is_dir() and not there.is_dir():
            shutil.rmtree(here)
        if there.is_dir():
            here.mkdir(exist_ok=True)
        elif there.is_file():
            shutil.copyfile(there, here)


def error_of(out: str) -> dict[str, str]:
    """The error in the last object on stdout."""
    found: dict[str, str] = json.loads(out.splitlines()[-1])["error"]
    return found
