"""Rooms stay small, and none takes the name of a package that somebody imports."""

from __future__ import annotations

from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import analytics
import dashboard

_MOST = 15
_ROOTS = [Path(str(package.__file__)).parent for package in (dashboard, analytics)]
_FOLDERS = sorted(init.parent for root in _ROOTS for init in root.rglob("__init__.py"))


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda f: "/".join(f.parts[-2:]))
def test_a_folder_has_a_door_plate_and_few_modules(folder: Path) -> None:
    modules = [file for file in folder.glob("*.py") if file.name != "__init__.py"]
    assert len(modules) <= _MOST, f"{folder}: give some of them a room of their own"
    assert (folder / "__init__.py").read_text("utf-8").startswith('"""')


def test_no_room_beside_the_page_server_hides_a_package() -> None:
    """Streamlit puts its script's folder first on the path: `import kafka` would find a room."""
    rooms = {entry.stem for entry in _ROOTS[0].iterdir()}
    assert not rooms & set(packages_distributions()), "another name, please"
