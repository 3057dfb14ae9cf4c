"""Fixtures of the command-line tests: nothing of this machine's settings, state or journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import sample_store
from tests.unit.cli.workers import start_with


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, its own state folder, and no settings file anywhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(
        "dashboard.settings.settings.user_config_path", lambda _name: tmp_path / "etc"
    )
    return tmp_path


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker does nothing here: whose test needs one says what it does.

    A process that waits to be told its run costs most of a second, and most calls are refused.
    """
    start_with(monkeypatch, lambda *_: 0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data folder with snapshots of a small cluster and their analysis; only to be read."""
    folder = tmp_path_factory.mktemp("data")
    sample_store.write(folder)
    return str(folder)
