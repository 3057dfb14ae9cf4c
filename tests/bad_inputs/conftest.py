"""Fixtures of bad inputs: one sound world for all, a copy of it for each, and no real worker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import Journal
from tests.bad_inputs import world as worlds
from tests.bad_inputs.calling import mend
from tests.bad_inputs.world import World
from tests.support.journals import unbind
from tests.unit.cli.workers import start_with


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The sound world; nobody changes it."""
    built = worlds.build(tmp_path_factory.mktemp("sound"))
    unbind(built.path / "state" / "journal.sqlite")  # its copies are written to
    yield built
    built.taken.close()


@pytest.fixture(scope="session")
def room(sound: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of it that each case damages and that is mended after each."""
    here = tmp_path_factory.mktemp("room") / "w"
    shutil.copytree(sound.path, here)
    return here


@pytest.fixture
def world(sound: World, room: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """That copy as the working directory, with no settings of this machine."""
    monkeypatch.chdir(room)
    monkeypatch.setenv("LOWWATER_STATE_DIR", "state")
    monkeypatch.setattr("dashboard.settings.settings.user_config_path", lambda _name: room / "etc")
    start_with(monkeypatch, _no_worker)
    with closing(Journal(room / "state" / "journal.sqlite")) as journal:
        journal.beat(sound.open_run_id, utc_now())  # its worker is alive: nobody starts another
    yield sound
    mend(room, sound.path)


def _no_worker(*_: object) -> int:
    raise AssertionError("a bad input started a purge")
