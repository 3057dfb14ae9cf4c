"""Rooms stay small, hide no package and obey the arrows; what texts say of them is there."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest

import analytics
import dashboard

_MOST = 15
_ROOTS = [Path(str(package.__file__)).parent for package in (dashboard, analytics)]
_FOLDERS = sorted(init.parent for root in _ROOTS for init in root.rglob("__init__.py"))
_CLONE = _ROOTS[0].parent
_TEXTS = (
    "*.md",
    "docs/*.md",
    "dashboard/**/*",
    "analytics/**/*",
    "pages/*",
    "tests/**/*",
    "tools/*",
    "deploy/**/*",
)
_NAMED = re.compile(r"`((?:\w+/)+[\w-]+)\.(\w+)`")  # a file in a room, or a name in it
_DOTTED = re.compile(r"`([a-z_]\w*)\.(\w+)(?:\([^`]*\))?`")  # a name in a module, by that alone
_NAME_OF = re.compile(r"`(\w+)`\s+of\s+`((?:\w+/)+\w+)\.py`")


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda f: "/".join(f.parts[-2:]))
def test_a_folder_has_a_door_plate_and_few_modules(folder: Path) -> None:
    modules = [file for file in folder.glob("*.py") if file.name != "__init__.py"]
    assert len(modules) <= _MOST, f"{folder}: give some of them a room of their own"
    assert (folder / "__init__.py").read_text("utf-8").startswith('"""')


def test_no_room_beside_the_page_server_hides_a_package() -> None:
    """Streamlit puts its script's folder first on the path: `import kafka` would find a room."""
    rooms = {entry.stem for entry in _ROOTS[0].iterdir()}
    assert not rooms & {*packages_distributions(), *sys.stdlib_module_names}, "another name, please"


@pytest.mark.parametrize(
    ("contract", "free"),
    [
        ("Streamlit only", {"dashboard.ui"}),
        ("Kafka clients", {"dashboard.cluster", "dashboard.demo"}),
    ],
)
def test_a_contract_that_lists_rooms_lists_all(contract: str, free: set[str]) -> None:
    """A new room that it does not name would be held to nothing, in silence."""
    project = tomllib.loads((_CLONE / "pyproject.toml").read_text("utf-8"))
    (found,) = (
        each["source_modules"]
        for each in project["tool"]["importlinter"]["contracts"]
        if each["name"].startswith(contract)
    )
    rooms = {f"dashboard.{init.parent.name}" for init in _ROOTS[0].glob("*/__init__.py")}
    assert rooms - free <= {*found}


def test_a_file_or_name_that_a_text_points_to_is_there() -> None:
    files = [p for p in chain.from_iterable(map(_CLONE.glob, _TEXTS)) if p.suffix in (".md", ".py")]
    texts = {f"/{p.relative_to(_CLONE)}": p.read_text("utf-8") for p in files}
    del texts["/CHANGELOG.md"]  # it tells of files that were there then
    named = [(path, *found) for path, text in texts.items() for found in _NAMED.findall(text)]
    assert len(named) > 100
    names = [(path, m, name) for path, text in texts.items() for name, m in _NAME_OF.findall(text)]
    assert len(names) > 20
    named += names
    every = [f"/{p.relative_to(_CLONE)}" for p in chain.from_iterable(map(_CLONE.glob, _TEXTS))]

    def leads(module: str, name: str) -> bool:
        within = re.compile(rf"\b(?:def|class) {name}\b|^{name}\b", re.MULTILINE)
        return any(path.endswith(f"/{module}.{name}") for path in every) or any(
            path.endswith(f"/{module}.py") and within.search(text) for path, text in texts.items()
        )

    assert [(path, f"{m}.{name}") for path, m, name in named if not leads(m, name)] == []


def _names(tree: ast.AST) -> Iterator[str]:
    """What a module or a class has for others."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from _names(node)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def test_a_dotted_name_in_a_docstring_or_comment_is_one() -> None:
    """`module.name` of ours; or what some code says itself: `object.member`, a file, a setting."""
    files = [file for root in (*_ROOTS, _CLONE / "pages") for file in sorted(root.rglob("*.py"))]
    ours: dict[str, set[str]] = {}
    said = {file.name for file in files}
    told: list[tuple[Path, str]] = []
    for file in files:
        text = file.read_text("utf-8")
        tree = ast.parse(text)
        ours.setdefault(file.stem, set()).update(_names(tree))
        if file.name == "__init__.py":
            beside = {path.stem for path in file.parent.iterdir()}
            ours.setdefault(file.parent.name, set()).update(_names(tree), beside)
        told += [(file, comment) for comment in re.findall("#.*", text)]
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                of = getattr(node.value, "id", getattr(node.value, "attr", ""))
                said.add(f"{of}.{node.attr}")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if id(node) in docs:
                    told.append((file, node.value))
                else:
                    said.update(re.findall(r"\w+\.\w+", node.value))
    found = [(file, *each) for file, text in told for each in _DOTTED.findall(text)]
    assert len(found) > 100
    ours["lw"] = ours["analytics"]  # as whoever works with its tables imports it
    assert [
        (str(file.relative_to(_CLONE)), f"{module}.{name}")
        for file, module, name in found
        if name not in ours.get(module, ()) and f"{module}.{name}" not in said
    ] == []


def test_a_statement_of_several_lines_stands_in_a_file_of_its_own() -> None:
    """Where an editor knows it as SQL, and a reader finds it whole."""
    statement = re.compile(r"\s*(?:with\b.*\bas\b|select\b).*\n.*\n", re.IGNORECASE)
    within = [
        f"{path.relative_to(_CLONE)}:{node.lineno}"
        for path in _ROOTS[1].rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and statement.match(str(node.value))
    ]
    assert within == []
    statements = [*_ROOTS[1].rglob("*.sql")]
    assert statements
    for path in statements:
        assert path.name in path.with_suffix(".py").read_text("utf-8")
