"""Canonical JSON and its hash, and records as JSON has them: one document, one text, one sha256."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import datetime
from typing import Any, TypeVar

from dashboard.core.clock import format_time

_T = TypeVar("_T")

_KEY = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
Pairs = Callable[[list[tuple[str, Any]]], Any]


def parse_json(text: str | bytes, pairs: Pairs | None = None) -> Any:
    """What a JSON text says, `pairs` for each object's. Raises ValueError for all that is none.

    Python's own reader ends brackets nested some thousands deep with a RecursionError.
    """
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def canonical(document: object) -> str:
    """Sorted keys, no spaces, UTF-8 as it is, no NaN."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(document: object) -> str:
    """Hex sha256 of the canonical JSON of `document`."""
    return hashlib.sha256(canonical(document).encode()).hexdigest()


def seal(document: Mapping[str, Any]) -> tuple[str, str]:
    """The `digest` of a document, and its canonical JSON with that as `sha256`: written once.

    Keys are sorted, so `sha256` stands between two parts that are canonical themselves; there
    must be a key on either side of it.
    """
    before = canonical({k: v for k, v in document.items() if k < "sha256"})[:-1]
    after = canonical({k: v for k, v in document.items() if k > "sha256"})[1:]
    found = hashlib.sha256(f"{before},{after}".encode()).hexdigest()
    return found, f'{before},"sha256":"{found}",{after}'


# Of a field: files of earlier releases have no such key, so its default is not written either.
LATER = {"later": True}


def written(value: Any) -> Any:
    """A record, and all that is in it, as JSON has it."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Mapping):
        return {str(key): written(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [written(item) for item in value]
    found = ((field, getattr(value, field.name)) for field in fields(value))
    return {f.name: written(v) for f, v in found if not f.metadata or v != _default(f)}


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def read(document: object, kind: type[_T]) -> _T:
    """The record that a JSON document holds. Raises ValueError that gives the JSON path."""
    import msgspec  # what only writes, and what runs beside Spark's tasks, does without

    try:
        return msgspec.convert(document, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(_said(str(error))) from error


def _said(told: str) -> str:
    """msgspec's message with the path first, down to a key that is missing or unknown."""
    what, _, path = told.partition(" - at ")
    where = path.strip("`") or "$"
    found = _KEY.fullmatch(what)
    if found is None:
        return f"{where}: {what}"
    return f"{where}.{found[2]} is {'missing' if found[1] == 'missing required' else 'unknown'}"
