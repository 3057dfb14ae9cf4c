"""The units start what there is, and all share one account without rights."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from dashboard.settings import settings
from tests.support.command_lines import parsed

FOLDER = Path(__file__).parents[3] / "deploy" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
SHARED = FOLDER / "lowwater-.service.d" / "hardening.conf"


def read(path: Path) -> configparser.ConfigParser:
    found = configparser.ConfigParser(
        strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",)
    )
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(path, encoding="utf-8")
    return found


def test_every_process_that_serves_has_a_unit() -> None:
    assert [unit.stem for unit in UNITS] == [
        "lowwater-dashboard", "lowwater-metrics", "lowwater-policies", "lowwater-watch",
    ]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_the_verb_of_its_name(unit: Path) -> None:
    found = read(unit)
    program, *words = found["Service"]["ExecStart"].split()
    assert program == "/opt/lowwater/bin/lowwater"
    assert parsed(words).verb == unit.stem.removeprefix("lowwater-")
    assert found["Install"]["WantedBy"] == "multi-user.target"


def test_the_environment_that_all_share_is_one_of_settings(tmp_path: Path) -> None:
    lines = SHARED.read_text("utf-8").splitlines()
    words = [line.removeprefix("Environment=") for line in lines if line.startswith("Environment=")]
    environ = dict(word.split("=", 1) for word in words)
    file = tmp_path / "lowwater.toml"
    file.write_text("")
    read_back = settings.load(environ={**environ, "LOWWATER_SETTINGS": str(file)})
    assert read_back.data == "/var/lib/lowwater/data"
    assert str(read_back.state_dir) == "/var/lib/lowwater/state"
    assert str(read_back.cache_dir) == "/var/cache/lowwater"
    shared = read(SHARED)["Service"]
    assert (shared["StateDirectory"], shared["CacheDirectory"]) == ("lowwater", "lowwater")
    assert (shared["User"], shared["ProtectSystem"]) == ("lowwater", "strict")
