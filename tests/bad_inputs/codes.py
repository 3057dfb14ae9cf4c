"""The codes that the sources can give, read from their syntax trees; and each one's exit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TypeGuard

from dashboard.core import errors
from dashboard.triage.pieces import OBSTACLES

ROOT = Path(__file__).parents[2]
_CODE = re.compile("[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
# Names of classes of which every error has a code of its own, and what a table says of others.
_NEVER_SAID = {"DEMO_FAILED", "INVENTORY_INVALID", "REFUSED", "REPORT_FAILED"}
_WHAT = {"LowwaterError": "What nobody foresaw: the message names the file with the traceback"}
# Functions that take a code as an argument among others, and name it in an error's `code=`.
_CLASSES = {
    name: one
    for name, one in vars(errors).items()
    if isinstance(one, type) and issubclass(one, errors.LowwaterError)
}
# Each class makes itself; a broker's metrics that cannot be read are told as a broker's error.
_OURS = {**{name: name for name in _CLASSES}, "Unread": "BrokerError", "failed": "BrokerError"}
_TAKE_CODES = ("_refused", "failed", "Unread")


def given() -> dict[str, set[str]]:
    """Code -> the files that give it: `code="…"`, `default_code = "…"`, and codes handed on."""
    found: dict[str, set[str]] = {}
    for path, tree in _sources().items():
        for code in _codes(tree):
            found.setdefault(code, set()).add(str(path.relative_to(ROOT)))
    # Found on a disk first, and the code of the refusal afterwards.
    return found | {code: {"dashboard/triage/pieces.py"} for code in OBSTACLES}


@cache
def by_class() -> dict[str, set[str]]:
    """The name of an error's class -> its codes; a function that returns one counts as it does."""
    found = {name: {one.default_code} for name, one in _CLASSES.items()}
    found["RefusedError"].update(OBSTACLES)
    for tree in _sources().values():
        makers = {**_OURS, **dict(_makers(tree))}
        for call in ast.walk(tree):
            maker = makers.get(_name(call.func)) if isinstance(call, ast.Call) else None
            if maker is not None:
                found[maker].update(_codes(call))
    return found


def exits() -> dict[str, set[int]]:
    """Code -> its exit codes, by the class of the error at each place that gives it."""
    found: dict[str, set[int]] = {}
    for name, codes in by_class().items():
        for code in codes:
            found.setdefault(code, set()).add(_CLASSES[name].exit_code)
    return found


def table() -> str:
    """The table of docs/errors.md: a row for each class, by exit code."""
    rows = ["| exit | what it is | codes |", "|---|---|---|"]
    for name, found in sorted(by_class().items(), key=lambda row: _CLASSES[row[0]].exit_code):
        told = sorted(found - {"INTERRUPTED"} - _NEVER_SAID)
        what = (_CLASSES[name].__doc__ or "").partition("\n")[0].rstrip(".")
        if told:
            codes = ", ".join(f"`{code}`" for code in told)
            rows.append(f"| {_CLASSES[name].exit_code} | {_WHAT.get(name, what)} | {codes} |")
    rows.append("| 130 | ended by Ctrl-C or SIGTERM | `DETACHED`, `INTERRUPTED` |")
    return "\n".join(rows) + "\n"


def _makers(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Functions of a module that return an error, and its class."""
    for node in ast.walk(tree):
        returned = getattr(node.returns, "id", "") if isinstance(node, ast.FunctionDef) else ""
        if isinstance(node, ast.FunctionDef) and returned in _CLASSES:
            yield node.name, returned


@cache
def _sources() -> dict[Path, ast.AST]:
    """The syntax tree of every file that may give a code."""
    rooms = ("dashboard", "analytics", "pages")
    paths = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def _codes(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if _is_code(node):
            yield from _constants(node.value)
        elif isinstance(node, ast.Call) and _name(node.func) in _TAKE_CODES:
            for argument in node.args:
                yield from _constants(argument)


def _is_code(node: ast.AST) -> TypeGuard[ast.keyword | ast.Assign]:
    """`code=…` of a call, or a class's `default_code = …`."""
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == "default_code" for t in node.targets)
    return isinstance(node, ast.keyword) and node.arg == "code"


def _name(function: ast.expr) -> str:
    return getattr(function, "id", getattr(function, "attr", ""))


def _constants(value: ast.expr) -> Iterator[str]:
    """The texts that an expression may be: a constant, or either side of a condition."""
    if isinstance(value, ast.IfExp):
        yield from _constants(value.body)
        yield from _constants(value.orelse)
    elif isinstance(value, ast.Constant) and _CODE.fullmatch(str(value.value)):
        yield str(value.value)


if __name__ == "__main__":
    print(table(), end="")
