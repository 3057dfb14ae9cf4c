"""Acts on a host's quarantine, and what its log tells of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dashboard.orphans.sweep import log
from dashboard.orphans.sweep.aside import find, restore
from dashboard.orphans.sweep.report import Outcome
from dashboard.orphans.sweep.site import Options, Site, open_site
from tests.unit.orphans.sweep_host import STRAY, Host


@contextmanager
def site(host: Host, quarantine_dirs: tuple[str, ...] = (), **changed: object) -> Iterator[Site]:
    options = Options((str(host.log_dir),), quarantine_dirs, apply=True)
    with open_site(options, host.live, now=lambda: host.now, expected=None, **changed) as opened:  # type: ignore[arg-type]
        yield opened


def put_back(host: Host, name: str = STRAY, quarantine_dirs: tuple[str, ...] = ()) -> Outcome:
    with site(host, quarantine_dirs, for_restore=True) as opened:
        return restore(opened, *find(opened, name), lambda: host.stopped)


def kinds(host: Host) -> list[str]:
    folder = os.open(host.quarantine, os.O_RDONLY)
    try:
        state = log.read(folder, "here")
    finally:
        os.close(folder)
    assert state.problems == ()
    return [entry.kind for entry in state.entries]


def whole(folder: Path) -> bool:
    return sorted(f.name for f in folder.iterdir()) == [
        f"{0:020}.index", f"{0:020}.log", f"{0:020}.timeindex", "partition.metadata",
    ]  # fmt: skip
