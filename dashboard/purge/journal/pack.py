"""How the journal keeps long texts small: deflated, in the same columns, told apart by a prefix.

A policy may queue a run every 30 s for years. Texts of earlier versions, and short ones, are plain:
both are read. The chain's hashes cover the plain text, so that packing changes no link.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from copy import copy
from functools import wraps
from typing import Any, Generic, Self, TypeVar

from dashboard.core.errors import JournalError, UsageError

_Row = TypeVar("_Row")
_T = TypeVar("_T")
_PREFIX = "z1:"  # no JSON text begins so
_ROW_PREFIX = "r1:"
_WORTH_IT = 2048
_LEVEL = 6

# Deflate may refer to it as if every row began with it. It is part of the format: never change it,
# add a new prefix instead.
_ROW_WORDS = (
    b'{"alive":false,"closing_per_second":,"error":"REFUSED","message":"nothing was truncated'
    b'"lag_records":0,"log_start_offset":null}],"leader_id":null,"wait_forecast":null,'
    b'"state":"leader_done","state":"not_done","state":"unknown","state":"pending","state":"sent",'
    b'"cause":"keeps-up","high_seconds":0.75,"likely_seconds":0.333,"low_seconds":0.0},'
    b'"waited_seconds":null}{"answer_error_code":null,"answer_low_watermark":null,"attempts":0,'
    b'"error":null,"followers":[],"leader_id":null,"leader_log_start_offset":null,'
    b'"low_watermark":null,"message":null,"partition":0,"predicted_bytes":null,"sent_at":null,'
    b'"sent_leader_epoch":null,"sent_leader_id":null,"state":"pending","target_offset":'
    b'{"answer_error_code":0,"answer_low_watermark":1,"attempts":1,"error":null,"followers":['
    b'{"alive":true,"arrived":true,"broker_id":1,"closing_per_second":null,"error":null,'
    b'"lag_records":null,"log_start_offset":1},{"alive":true,"arrived":true,"broker_id":2,'
    b'"closing_per_second":null,"error":null,"lag_records":null,"log_start_offset":2}],'
    b'"leader_id":1,"leader_log_start_offset":1,"low_watermark":1,"message":null,"partition":1,'
    b'"predicted_bytes":1,"sent_at":"2026-01-01T00:00:00.000Z","sent_leader_epoch":1,'
    b'"sent_leader_id":1,"state":"done","target_offset":1,"topic":"'
)


def pack(text: str) -> str:
    """A JSON text as it is stored; a short one as it is."""
    return text if len(text) < _WORTH_IT else _PREFIX + _deflated(text, b"")


def pack_row(text: str) -> str:
    """The JSON text of one partition's row; alike rows share the words that they repeat."""
    return _ROW_PREFIX + _deflated(text, _ROW_WORDS)


def unpack(stored: str) -> str:
    """The text that was packed, or stored plain. Raises JournalError when it was changed."""
    prefix = stored[:3]
    if prefix not in (_PREFIX, _ROW_PREFIX):
        return stored
    words = _ROW_WORDS if prefix == _ROW_PREFIX else b""
    machine = zlib.decompressobj(zdict=words) if words else zlib.decompressobj()
    try:
        text = machine.decompress(base64.b64decode(stored[3:], validate=True)) + machine.flush()
        if machine.eof:
            return text.decode()
    except (ValueError, zlib.error) as error:
        raise changed() from error
    raise changed()


def readable(decode: Callable[[_Row], _T]) -> Callable[[_Row], _T]:
    """The same reader of a stored row, whose every failure is JournalError JOURNAL_BROKEN."""

    @wraps(decode)
    def read(row: _Row) -> _T:
        try:
            return decode(row)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise changed() from error
        except UsageError as error:  # a time that is none
            raise changed() from error

    return read


def changed() -> JournalError:
    """The error for a stored text that is not what was written."""
    return JournalError(
        "a text of the purge journal was changed after it was written, and cannot be read",
        "Keep the file as it is, and compare it with a backup; see: lowwater runs --verify.",
        code="JOURNAL_BROKEN",
    )


class Stored(Generic[_T]):
    """A stored JSON object that is decoded when it is first asked for: most of a list's never are.

    Its text is forgotten then; two threads at once come to the same.
    """

    def __init__(self, text: str, decode: Callable[[Any], _T]) -> None:
        def decoded(stored: str) -> _T:
            return decode(json.loads(unpack(stored)))

        self._text: str | None = text
        self._decode = readable(decoded)

    @property
    def value(self) -> _T:
        if (text := self._text) is not None:
            self._value = self._decode(text)
            self._text = None
        return self._value

    def then(self, change: Callable[[_T], _T]) -> Self:
        """The same with this change; decoded no sooner, and without the whole in memory."""
        found, decode = copy(self), self._decode
        if self._text is None:
            found._value = change(self._value)
        else:
            found._decode = lambda text: change(decode(text))
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stored) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.value)


def _deflated(text: str, words: bytes) -> str:
    machine = zlib.compressobj(_LEVEL, zdict=words) if words else zlib.compressobj(_LEVEL)
    return base64.b64encode(machine.compress(text.encode()) + machine.flush()).decode()
