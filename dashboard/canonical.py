"""Canonical JSON and its hash: the same document, the same bytes, the same sha256."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical(document: Mapping[str, Any]) -> str:
    """Sorted keys, no spaces, UTF-8 as it is, no NaN."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(document: Mapping[str, Any]) -> str:
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
