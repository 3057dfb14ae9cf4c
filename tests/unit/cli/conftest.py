"""Fixtures of the command-line tests: nothing of this machine's settings, state or journal."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, its own state folder, and no settings file anywhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr("dashboard.settings.user_config_path", lambda _name: tmp_path / "etc")
    return tmp_path
