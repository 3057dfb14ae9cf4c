"""The builder of the class-data archive: what it is given, and that it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from analytics.session import archive, session
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


def test_a_pyspark_that_is_installed_anew_has_an_archive_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar = tmp_path / "pyspark" / "jars" / "spark-core.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"classes")
    monkeypatch.setattr(session.pyspark, "__file__", str(tmp_path / "pyspark" / "__init__.py"))

    def path() -> Path:
        return session.archive_path(Settings(cache_dir=tmp_path), Java("java", 17, "17.0.1"))

    first = path()
    assert path() == first
    jar.rename(jar.with_suffix(".old"))
    jar.write_bytes(b"classes")
    assert path() != first
    jar.unlink()
    jar.with_suffix(".old").rename(jar)
    assert path() == first


def test_of_older_archives_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "class-data"
    folder.mkdir()
    for age, name in enumerate(["spark-c.jsa", "spark-b.jsa", "spark-a.jsa"], start=1):
        (folder / name).touch()
        os.utime(folder / name, (1000 - age, 1000 - age))
    (folder / "kafka-4.3.1.jsa").touch()
    made = folder / "spark-new.jsa"
    monkeypatch.setattr(archive, "find_java", lambda: Java("java", 17, "17.0.1"))
    monkeypatch.setattr(archive, "archive_path", lambda *_: made)
    monkeypatch.setattr(archive, "_record", lambda _settings, part: part.write_bytes(b"classes"))

    assert archive.build(Settings(cache_dir=tmp_path))

    kept = {file.name for file in folder.glob("*.jsa")}
    assert kept == {"spark-new.jsa", "spark-c.jsa", "kafka-4.3.1.jsa"}


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
