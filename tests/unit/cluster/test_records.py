"""Which offsets a look at a log asks for: the last record in few steps, samples spread evenly."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cluster import records
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import Record, Span
from tests.unit.cluster.test_ranges import Message


class Log(records._Look):
    """A look at a log of which offsets alone are known; markers and holes lie between them."""

    def __init__(self, offsets: list[int], span: Span) -> None:
        super().__init__(None, TopicPartition("t", 0), span, False, math.inf)  # type: ignore[arg-type]
        self.offsets, self.asked = offsets, 0

    def _assign(self, offset: int) -> None:
        self._next = offset

    def _read_at(self, offset: int) -> Record | None:
        self.asked += 1
        at = bisect_left(self.offsets, offset)
        found = self.offsets[at] if at < len(self.offsets) else self._span.target_offset
        below = found < self._span.target_offset
        return Record(found, None, None, None, None, ()) if below else None


@given(st.sets(st.integers(0, 5000)), st.integers(0, 5000), st.integers(1, 6000))
def test_the_last_record_below_a_target_is_found_in_few_steps(
    offsets: set[int], start: int, target: int
) -> None:
    log = Log(sorted(offsets), Span(start, target))
    found = log.run(0)
    within = sorted(o for o in offsets if start <= o < target)
    edges = [record and record.offset for record in (found.first, found.last)]
    assert edges == ([within[0], within[-1]] if within else [None, None])
    assert log.asked <= 2 + 2 * math.ceil(math.log2(max(2, target - start)))


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 100))
def test_samples_lie_between_the_edges_evenly_and_once_each(
    first: int, more: int, count: int
) -> None:
    found = records._evenly(first, first + more, count)
    assert len(found) == min(count, max(0, more - 1))
    assert all(first < offset < first + more for offset in found)
    steps = [b - a for a, b in zip([first, *found], [*found, first + more], strict=True)]
    assert max(steps) - min(steps) <= 1 or not found


def test_samples_that_find_the_same_record_show_it_once() -> None:
    log = Log([0, 90, 100], Span(0, 101))
    assert [record.offset for record in log.run(10).records] == [0, 90, 100]
    assert log.asked == 3, "the edges and the hole"


class Polled(Message):
    """A record of topic t, as `poll` gives it."""

    def __init__(self, partition: int, offset: int, odd: type[Exception] | None) -> None:
        super().__init__(offset, odd)
        self._partition = partition

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def error(self) -> None:
        return None


@pytest.mark.parametrize("fault", [SystemError, UnicodeError])
@pytest.mark.parametrize(("odd", "read"), [(0, []), (2, [0]), (1, [0, 2])])
def test_a_header_whose_name_is_not_utf_8_costs_its_partition_alone(
    monkeypatch: pytest.MonkeyPatch, fault: type[Exception], odd: int, read: list[int]
) -> None:
    class Client:
        def __init__(self, *_: object) -> None:
            self.consumer = self

        def assign(self, positions: list[Any]) -> None:
            self.partition, self.next = positions[0].partition, positions[0].offset

        def seek(self, position: Any) -> None:
            self.assign([position])

        def poll(self, _: float) -> Polled:
            self.next += 1
            is_odd = (self.partition, self.next - 1) == (1, odd)
            return Polled(self.partition, self.next - 1, fault if is_odd else None)

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(records, "_Client", Client)
    spans = {TopicPartition("t", partition): Span(0, 3) for partition in range(3)}
    found = list(
        records.read_records({}, "c", spans, sampled=1, values=True, deadline=math.inf).values()
    )
    assert found[1].error == f"a header's name is not UTF-8 at offset {odd}"
    assert [[r.offset for r in at.records] for at in found] == [[0, 1, 2], read, [0, 1, 2]]
    assert (found[0].error, found[2].error) == (None, None)
