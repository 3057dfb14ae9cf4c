"""Canonical JSON and its hash, records as JSON has them, and files sealed with a sha256 of their
own: one document, one text, one sha256.

msgspec checks every value against the annotations of the record; a sealed document must then be
what the record writes, so that no key or spelling is hashed and never acted on.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from datetime import datetime
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from dashboard.core.clock import format_time
from dashboard.core.errors import LowwaterError, RefusedError

if TYPE_CHECKING or find_spec("msgspec"):
    from msgspec import Meta
else:  # Spark's tasks read no documents: their Python has numpy and pyarrow alone

    def Meta(**limits: int | bool) -> object:
        return limits


_T = TypeVar("_T")

_learning = Lock()
_learnt: set[object] = set()  # kinds of which a document was read
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


_PLAIN = frozenset((type(None), bool, int, float, str))
_records: dict[type, tuple[tuple[str, Field[Any] | None], ...]] = {}  # fields, and which are LATER
# Of a field: files of earlier releases have no such key, so its default is not written either.
LATER = {"later": True}


def written(value: Any) -> Any:
    """A record, and all that is in it, as JSON has it."""
    kind = type(value)  # of a plan of 100,000 partitions there are millions: the usual ones first
    if kind in _PLAIN:
        return value
    if kind not in _records:
        return _unusual(value)
    return {
        name: found if type(found) in _PLAIN else written(found)
        for name, later in _records[kind]
        for found in (getattr(value, name),)
        if later is None or found != _default(later)
    }


def _unusual(value: Any) -> Any:
    """As `written`: what is no record, and the first record of a type."""
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, Mapping):
        return {str(key): written(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [written(item) for item in value]
    _records[type(value)] = tuple((f.name, f if f.metadata else None) for f in fields(value))
    return written(value)


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def read(document: object, kind: type[_T]) -> _T:
    """The record that a JSON document holds. Raises ValueError that gives the JSON path."""
    import msgspec  # what only writes, and what runs beside Spark's tasks, does without

    try:
        if kind in _learnt:
            return msgspec.convert(document, kind, str_keys=True)
        # It learns a kind at the first document, and two threads that have one end the process.
        with _learning:
            found = msgspec.convert(document, kind, str_keys=True)
        _learnt.add(kind)
        return found
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


_LARGEST = 2**63 - 1

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=_LARGEST)]
Offset = Annotated[int, Meta(ge=-1, le=_LARGEST)]  # -1: as Kafka's own fields have it
PartitionId = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Moment = Annotated[datetime, Meta(tz=True)]


@dataclass(frozen=True, slots=True)
class SealedKind(Generic[_T]):
    """A kind of sealed file, and what is said of one that is not.

    `noun`: a plan, a file of verdicts. `invalid(where, what)` and `changed(where, actual, claimed)`
    make the errors; `check` raises ValueError for a record whose values do not fit each other.
    """

    record: type[_T]
    noun: str
    invalid: Callable[[str, str], LowwaterError]
    changed: Callable[[str, str, object], RefusedError]
    check: Callable[[_T], None]
    version: int = 1

    def document(self, found: _T) -> dict[str, Any]:
        """What is hashed: all but `sha256`."""
        return {"version": self.version, **written(found)}

    def parse(self, text: str, where: str) -> _T:
        """Read, verify and decode the text of the file that `where` names.

        Raises `invalid`, and `changed` where its sha256 is not its own.
        """
        document = self._of(text, where)
        claimed = document.pop("sha256", None)
        try:
            actual = digest(document)
        except ValueError as error:
            raise self.invalid(where, f"is not a {self.noun}: {error}") from error
        if claimed != actual:
            raise self.changed(where, actual, claimed)
        try:
            found = read(document, self.record)
            self.check(found)
        except ValueError as error:
            raise self.invalid(where, f"is not a {self.noun}: {error}") from error
        # Unknown keys or another spelling would be hashed but never acted on.
        if self.document(found) != document:
            raise self.invalid(where, f"holds keys or values that no {self.noun} has")
        return found

    def _of(self, text: str, where: str) -> dict[str, Any]:
        try:
            document = parse_json(text)
        except ValueError as error:
            raise self.invalid(where, f"is not JSON: {error}") from error
        version = document.get("version") if isinstance(document, dict) else None
        if version != self.version or isinstance(version, bool | float):
            raise self.invalid(where, f"is no {self.noun} of version {self.version}")
        found: dict[str, Any] = document
        return found
