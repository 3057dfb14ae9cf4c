"""Canonical JSON, its hash, and files sealed with it: one document, one text, one sha256."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dashboard.core.errors import LowwaterError

_T = TypeVar("_T")
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


@dataclass(frozen=True, slots=True)
class SealedKind(Generic[_T]):
    """A kind of sealed file: how it is read and written, and what is said of one that is not.

    `decode` and `encode` are of the document without `sha256`. `noun`: a plan, a file of verdicts;
    `no_such` and `no_hash` begin what is said of a document that is none, or has no hash.
    `invalid(where, what)` and `changed(where, actual, claimed)` make the errors.
    """

    version: int
    noun: str
    no_such: str
    no_hash: str
    decode: Callable[[dict[str, Any]], _T]
    encode: Callable[[_T], dict[str, Any]]
    invalid: Callable[[str, str], LowwaterError]
    changed: Callable[[str, str, object], LowwaterError]

    def parse(self, text: str, where: str) -> _T:
        """Read, verify and decode the text of the file that `where` names.

        Raises `invalid`, and `changed` where its sha256 is not its own.
        """
        document = self._document(text, where)
        claimed = document.pop("sha256", None)
        try:
            actual = digest(document)
        except ValueError as error:
            raise self.invalid(where, f"{self.no_hash}: {error}") from error
        if claimed != actual:
            raise self.changed(where, actual, claimed)
        try:
            found = self.decode(document)
        except (KeyError, TypeError, ValueError, AttributeError, LowwaterError) as error:
            why = f"{self.no_such}: {type(error).__name__} {error}"
            raise self.invalid(where, why) from error
        # Unknown keys, other types or another spelling would be hashed but never acted on.
        if self.encode(found) != document:
            raise self.invalid(where, f"holds keys or values that no {self.noun} has")
        return found

    def _document(self, text: str, where: str) -> dict[str, Any]:
        try:
            document = parse_json(text)
        except ValueError as error:
            raise self.invalid(where, f"is not JSON: {error}") from error
        version = document.get("version") if isinstance(document, dict) else None
        if version != self.version or isinstance(version, bool | float):
            raise self.invalid(where, f"is no {self.noun} of version {self.version}")
        found: dict[str, Any] = document
        return found
