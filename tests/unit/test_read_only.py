"""read_only of the settings file counts as it is written now, for whoever has started already."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import SettingsError
from dashboard.people import people
from dashboard.settings import current
from dashboard.settings.settings import Settings, load, source_of


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "lowwater.toml"
    made.write_text("read_only = false\n")
    return made


def test_a_switch_that_is_written_later_counts_and_so_does_its_end(file: Path) -> None:
    settings = load(file, {})
    assert current.why_read_only(settings, {}) is None
    file.write_text("read_only = true\n")
    assert current.why_read_only(settings, {}) == f"read_only of the settings ({file}) is on"
    file.write_text("")
    assert current.why_read_only(settings, {}) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("read_only = ", "cannot be read"),
        ("read_only = 'maybe'", "read_only"),
        ("readonly = true", "readonly"),
        ("every = 'often'", "every"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_file_that_is_wrong_is_read_only_and_named(file: Path, text: str, said: str) -> None:
    settings = load(file, {})
    file.write_bytes(text.encode(errors="surrogateescape"))
    why = current.why_read_only(settings, {})
    assert why is not None
    assert why.startswith(f"the settings file {file} is wrong by now, so every purge is off: ")
    assert said in why


def test_a_file_that_is_gone_is_read_only_and_named(file: Path) -> None:
    settings = load(file, {})
    file.unlink()
    assert f"the settings file {file} does not exist" in str(current.why_read_only(settings, {}))


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """The working directory, or the folder of settings, cannot be looked into from now on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "dashboard.settings.settings.user_config_path", lambda _name: tmp_path / "etc"
    )
    honest = Path.stat

    def close(folder: str, number: int) -> None:
        def asked(self: Path, **options: Any) -> os.stat_result:
            if self == Path(folder, "lowwater.toml") or self == tmp_path / folder / "lowwater.toml":
                raise OSError(number, os.strerror(number), str(self))
            return honest(self, **options)

        monkeypatch.setattr(Path, "stat", asked)

    return close


@pytest.mark.parametrize("folder", ["", "etc"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_file_that_may_be_there_unseen_is_no_defaults(
    closed: Callable[[str, int], None], tmp_path: Path, folder: str, number: int
) -> None:
    began = load(None, {})
    assert began.looked_for and current.why_read_only(began, {}) is None
    running = current.CurrentSettings(began, {})
    closed(folder, number)
    for read in (lambda: load(None, {}), lambda: source_of(began, {}),
                 lambda: people.current(began), running.get):  # fmt: skip
        with pytest.raises(SettingsError) as unseen:
            read()
        assert str(tmp_path / folder / "lowwater.toml") in unseen.value.message
        assert os.strerror(number) in unseen.value.message
    why = str(current.why_read_only(began, {}))
    assert "every purge is off" in why and os.strerror(number) in why
    assert current.each_second(began, environ={})() == why


@pytest.mark.parametrize("name", ["file/none", "x" * 300, "loop/none"])
def test_a_folder_that_cannot_be_has_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setattr(
        "dashboard.settings.settings.user_config_path", lambda _name: tmp_path / name
    )
    assert load(None, {}).source is None


def test_the_variable_goes_before_the_file_as_at_the_start(file: Path) -> None:
    environ = {"LOWWATER_READ_ONLY": "1"}
    assert current.why_read_only(load(file, environ), environ) is not None


def test_without_a_file_the_settings_say_it() -> None:
    assert current.why_read_only(Settings()) is None
    assert current.why_read_only(Settings(read_only=True)) == "read_only of the settings is on"


def test_nothing_else_of_a_changed_file_is_asked(file: Path) -> None:
    settings = load(file, {})
    file.write_text("read_only = false\ndata = 'elsewhere'\n")
    assert current.why_read_only(settings, {}) is None
    assert settings == replace(load(file, {}), data="data")


def test_one_who_asks_often_reads_the_file_once_a_second(file: Path) -> None:
    seconds = 100.0
    asked = current.each_second(load(file, {}), lambda: seconds)
    assert asked() is None
    file.write_text("read_only = true\n")
    seconds += 0.9
    assert asked() is None
    seconds += 0.1
    assert asked() is not None
    file.write_text("read_only = false\n")
    seconds -= 60  # such a clock does not, but then nothing old may count
    assert asked() is None
