"""The bad inputs as data: one module per kind of input, each with its `CASES`."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from tests.bad_inputs.case import Case

KINDS = tuple(sorted(found.name for found in iter_modules(__path__)))


def all_cases() -> list[Case]:
    """Every case of every kind, with its kind before its name."""
    return [
        case.of_kind(kind) for kind in KINDS for case in import_module(f"{__name__}.{kind}").CASES
    ]
