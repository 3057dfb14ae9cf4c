"""Files sealed with a sha256 of their own: records as JSON has them, and read again as typed.

msgspec checks every value against the annotations of the record; the document must then be what
the record writes, so that no key or spelling is hashed and never acted on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta

from dashboard.core.canonical import digest, parse_json, read, written
from dashboard.core.errors import LowwaterError, RefusedError

_T = TypeVar("_T")
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
