"""The wheel's list of packages and the folders of the clone say the same."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_wheel_names_every_package_of_the_clone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    found = {
        ".".join(file.parent.relative_to(ROOT).parts)
        for top in ("dashboard", "analytics")
        for file in (ROOT / top).rglob("*.py")
    }

    assert set(project["tool"]["setuptools"]["packages"]) == found | {
        "dashboard.docs",
        "dashboard.screens",
    }


def test_the_wheel_carries_every_file_that_is_no_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data = project["tool"]["setuptools"]["package-data"]
    carried = {
        file
        for package, patterns in data.items()
        for pattern in patterns
        for file in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    # The documentation is a package by its place in the wheel alone: all its texts are carried.
    assert data["dashboard.docs"] == ["*.md"]
    assert project["tool"]["setuptools"]["package-dir"]["dashboard.docs"] == "docs"

    found = {
        file
        for top in ("dashboard", "analytics")
        for file in (ROOT / top).rglob("*")
        if file.is_file() and file.suffix != ".py" and "__pycache__" not in file.parts
    }

    assert found == carried
