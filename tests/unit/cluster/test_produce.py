"""One reader reads back all ranges of a restore: to open and to close one takes seconds."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from dashboard.cluster import produce
from dashboard.cluster.produce import RecordClient
from dashboard.cluster.ranges import RangeError, Records
from dashboard.core.errors import ClusterError
from dashboard.domain.model import TopicPartition
from tests.support.kept_log import columns


class Reader:
    """As `RangeReader`: records of two in each answer, and what was done, in order."""

    done: list[str] = []  # noqa: RUF012  # of all of a test

    def __init__(self, *_: Any) -> None:
        self.done.append("opened")

    def close(self) -> None:
        self.done.append("closed")

    def read(
        self, key: TopicPartition, start: int, end: int, _: float
    ) -> Generator[Records, None, None]:
        self.done.append(f"begins {key.partition}")
        try:
            if key.partition == 7:
                raise RangeError("TOPIC_AUTHORIZATION_FAILED")
            for at in range(start, end, 2):
                yield Records(columns([at, at + 1]), at + 2, {1: at + 2})
        finally:
            self.done.append(f"ends {key.partition}")


def test_one_reader_reads_one_range_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "RangeReader", Reader)
    monkeypatch.setattr(Reader, "done", [])
    with RecordClient({}, "c1") as client:
        first = client.read("t", 0, 0, 4)
        assert next(first)[0] == [0, 1]  # who compares may stop amid a range
        assert [offsets for offsets, _ in client.read("t", 1, 4, 8)] == [[4, 5], [6, 7]]
        first.close()
        with pytest.raises(ClusterError, match="TOPIC_AUTHORIZATION_FAILED"):
            next(client.read("t", 7, 0, 4))
        assert len(list(client.read("t", 2, 0, 2))) == 1
    assert Reader.done == [
        "opened", "begins 0", "ends 0", "begins 1", "ends 1", "begins 7", "ends 7", "closed",
        "opened", "begins 2", "ends 2", "closed",
    ]  # fmt: skip
