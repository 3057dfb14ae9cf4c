"""read_only of the settings file counts as it is written now, for whoever has started already."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.settings import current
from dashboard.settings.settings import Settings, load


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
