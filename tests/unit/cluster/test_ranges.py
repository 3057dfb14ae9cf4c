"""What a consumer gives of a record becomes columns, or the reason why it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.cluster.ranges import RangeError, _columns


class Message:
    """As confluent-kafka's, with a header that it cannot tell where it is odd."""

    def __init__(
        self, offset: int, odd: type[Exception] | None = None, at: int | None = None
    ) -> None:
        self._offset, self._odd = offset, odd
        self._at = 1_700_000_000_000 + offset if at is None else at

    def timestamp(self) -> tuple[int, int]:
        return 1, self._at

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"

    def headers(self) -> list[tuple[str, bytes]] | None:
        if self._odd is not None:
            raise self._odd("returned NULL without setting an exception")
        return [("trace", b"1")] if self._offset % 2 else None


def test_a_record_without_headers_has_an_empty_list_of_them() -> None:
    records: Any = [Message(4), Message(5)]
    assert _columns(records, [4, 5])["headers"] == [[], [("trace", b"1")]]


def test_of_times_before_1970_only_minus_one_is_none() -> None:
    """Kafka's NO_TIMESTAMP; a producer that is no Java one may write any other."""
    records: Any = [Message(4, at=-1), Message(5, at=-5), Message(6, at=0)]
    assert _columns(records, [4, 5, 6])["timestamp"] == [None, -5, 0]


def test_a_header_whose_name_is_not_utf_8_is_told_with_its_offsets() -> None:
    """confluent-kafka makes text of its bytes, and raises SystemError."""
    records: Any = [Message(4), Message(5, SystemError)]
    with pytest.raises(RangeError, match="not UTF-8 at one of offsets 4 to 5"):
        _columns(records, [4, 5])
