"""The image is made of the commit's wheel and its pins, by whichever builder there is."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dashboard.settings import settings
from tools import image

TEXT = image.CONTAINERFILE.read_text("utf-8").replace("\\\n", " ")


def test_nothing_is_installed_without_its_hash_but_the_wheel() -> None:
    calls = re.findall(r"pip install (.*?)(?:&&|$)", TEXT, re.MULTILINE)
    assert len(calls) == 2
    assert "--require-hashes" in calls[0]
    assert "--no-index" in calls[1] and "--no-deps" in calls[1]


def test_the_image_writes_where_its_volume_is(tmp_path: Path) -> None:
    environ = dict(re.findall(r"(LOWWATER_\w+)=(\S+)", TEXT))
    file = tmp_path / "lowwater.toml"
    file.write_text("")
    read = settings.load(environ={**environ, "LOWWATER_SETTINGS": str(file)})
    (volume,) = re.findall(r"^VOLUME (\S+)", TEXT, re.MULTILINE)
    for folder in (Path(read.data), read.state_dir, read.cache_dir):
        assert folder.is_relative_to(volume)
    assert 'ENTRYPOINT ["tini", "--", "lowwater"]' in TEXT


def test_the_first_builder_that_is_there_gets_all_that_the_image_is_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "buildah" else f"/{name}")
    monkeypatch.setattr(image, "lay", lambda folder: (folder / "laid").touch())

    def run(words: list[str], *, check: bool) -> None:
        assert check and Path(words[-1], "laid").exists()
        asked.append(words)

    monkeypatch.setattr(subprocess, "run", run)
    assert image.main(["--network", "host"]) is None
    ((builder, verb, *words),) = asked
    assert (builder, verb) == ("podman", "build")
    assert words[words.index("--tag") + 1] == image.name() == capsys.readouterr().out.strip()
    assert words[-3:-1] == ["--network", "host"]


def test_without_a_builder_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    said = image.main([])
    assert said is not None and "apt-get install buildah" in said
