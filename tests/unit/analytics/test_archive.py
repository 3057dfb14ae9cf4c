"""The builder of the class-data archive: what it is given, and that it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from analytics.session import archive
from analytics.session.session import Java
from dashboard.settings.settings import Settings


def test_the_builder_is_given_its_starters_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[dict[str, Any]] = []
    monkeypatch.setattr(archive, "find_java", lambda: Java("java", 17, "17.0.1"))
    monkeypatch.setattr(subprocess, "Popen", lambda _, **options: started.append(options))
    settings = Settings(cache_dir=tmp_path, source=tmp_path / "own.toml")
    spark = Mock()

    archive.prepare(settings, spark, keep_waiting=False)

    [options] = started
    assert options["env"]["LOWWATER_SETTINGS"] == str(tmp_path / "own.toml")
    assert options["env"]["LOWWATER_CACHE_DIR"] == str(tmp_path)
    assert options["start_new_session"] is True
    spark.stop.assert_called_once()


_STUCK = """
import subprocess, sys
from analytics.session import archive
archive._LONGEST_SECONDS = 1
archive._end_in_time()
subprocess.run([sys.executable, "-c", "import time; time.sleep(60)"])
"""


def test_a_stuck_builder_ends_with_everything_it_started() -> None:
    # The pipe closes only when the last process that holds it has ended.
    stuck = subprocess.run(
        [sys.executable, "-c", _STUCK], capture_output=True, text=True, timeout=240, check=False
    )
    assert stuck.returncode == -signal.SIGKILL
