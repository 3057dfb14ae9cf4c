"""Canonical JSON and its hash: one document, one text, one sha256."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

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
