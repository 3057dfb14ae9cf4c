"""The sampled estimator: sizes that change, the log start's segment, what is left out."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.cluster.delete_records import first_batch
from dashboard.domain.model import Batch, TopicPartition
from dashboard.purge.evidence import sampled
from dashboard.purge.evidence.sampled import between, bytes_between, estimate, rolled_bytes
from dashboard.purge.plan.resolve import ResolvedTarget
from tests.support.cluster import FakeCluster
from tests.unit.purge.facts_of import KEY, facts, partition

GREW = [Batch(o, 100 * 10 if o < 500 else 1500 * 10, 10) for o in range(0, 1000, 40)]


def test_records_that_grew_do_not_spread_evenly() -> None:
    assert bytes_between(GREW, 0, 400) == 400 * 100
    total = bytes_between(GREW, 0, 1000)
    assert total == pytest.approx(500 * 100 + 500 * 1500, rel=0.05)
    assert total / 1000 * 400 > 7 * bytes_between(GREW, 0, 400)  # what an even spread would say


def test_whole_segments_go_and_the_active_one_stays() -> None:
    even = [Batch(o, 1000, 10) for o in range(0, 1000, 40)]  # 100 bytes per offset
    found = estimate(even, {1: 100_000, 2: 100_000}, start=0, end=1000, target=950,
                     segment_bytes=30_000)  # fmt: skip
    assert found.replicas == {1: 90_000, 2: 90_000}
    assert found.bytes_at_once == 180_000
    all_of_it = estimate(even, {1: 90_000}, start=0, end=900, target=900, segment_bytes=30_000)
    assert all_of_it.replicas == {1: 60_000}


def test_bytes_below_the_log_start_go_with_the_segment_that_holds_it() -> None:
    even = [Batch(o, 1000, 10) for o in range(250, 1000, 40)]
    # Segments of 300 offsets; the log starts at 250, its first segment at 0.
    found = estimate(even, {1: 100_000}, start=250, end=1000, target=330, segment_bytes=30_000)
    assert found.replicas == {1: 30_000}


def test_what_is_written_in_segment_ms_is_a_segment_though_it_is_not_full() -> None:
    # 100 bytes an offset, ten offsets a second: 1,000 bytes a second.
    timed = [Batch(o, 1000, 10, 100 * o) for o in range(0, 1000, 40)]
    of_times = {"start": 0, "end": 1000, "target": 500, "segment_bytes": 1 << 30}
    assert rolled_bytes(timed, 2_000) == pytest.approx(2_000, rel=0.01)
    assert estimate(timed, {1: 100_000}, **of_times).replicas == {1: 0}
    by_time = estimate(timed, {1: 100_000}, **of_times, segment_ms=2_000)
    assert by_time.replicas[1] == pytest.approx(49_000, rel=0.01)
    assert by_time.bytes_at_once_low == 0
    assert rolled_bytes([Batch(0, 1000, 10), *timed], 2_000) is None, "one tells no time"
    assert rolled_bytes(timed[:1], 2_000) is None


def test_nothing_lies_below_the_first_record_of_a_partition() -> None:
    even = [Batch(o, 1000, 10) for o in range(0, 1000, 40)]
    few = {"end": 1000, "target": 500, "segment_bytes": 30_000}  # the samples tell a tenth too few
    assert estimate(even, {1: 110_000}, start=0, **few).bytes_later == 55_000 - 30_000
    moved = [Batch(o, 1000, 10) for o in range(10, 1000, 40)]
    told = estimate(moved, {1: 109_000}, start=10, **few)
    assert (told.bytes_at_once or 0) + (told.bytes_later or 0) == 49_000 + 10_000


@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=30),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(1, 10_000),
)
def test_more_is_never_promised_than_there_is_nor_less_for_a_later_target(
    sizes: list[int], one: int, other: int, segment: int
) -> None:
    step = max(1, 1000 // len(sizes))
    batches = [Batch(i * step, size, 1) for i, size in enumerate(sizes)]
    size = sum(sizes) * step
    low, high = (
        estimate(batches, {1: size}, start=0, end=1000, target=t, segment_bytes=segment)
        for t in sorted((one, other))
    )
    assert low.bytes_at_once is not None
    assert high.bytes_at_once is not None
    assert 0 <= low.bytes_at_once <= high.bytes_at_once <= size


def test_only_what_can_be_purged_and_is_not_tiered_is_read() -> None:
    live = FakeCluster()
    resolved = {KEY: ResolvedTarget(60)}
    local = {"segment.bytes": "20000"}
    assert sampled.estimates(live, facts(partition(), configs=local), resolved)[KEY].method == (
        "sampled"
    )
    tiered = {**local, "remote.storage.enable": "true"}
    assert not sampled.estimates(live, facts(partition(), configs=tiered), resolved)
    assert not sampled.estimates(live, facts(partition(start=60)), resolved)
    assert not sampled.estimates(live, facts(partition()), {KEY: ResolvedTarget(None)})
    assert not sampled.estimates(live, facts(partition()), {TopicPartition("other", 0): _AT_60})


_AT_60 = ResolvedTarget(60)


def test_the_middle_is_read_where_sizes_jump_and_nowhere_else() -> None:
    jump = [Batch(0, 100, 1), Batch(400, 100, 1), Batch(800, 1500, 1), Batch(1200, 1500, 1)]
    assert between(jump) == [600]
    assert between([Batch(o, 100, 1) for o in range(0, 1000, 100)]) == []
    assert between(jump[:1]) == []


def test_a_batch_header_is_kafkas_v2_or_nothing() -> None:
    header = struct.pack(">qiibihiqq", 40, 188, 3, 2, 0, 0, 9, 1000, 1500) + bytes(18)
    assert first_batch(header) == Batch(40, 200, 10, 1500)
    untimed = struct.pack(">qiibihiqq", 40, 188, 3, 2, 0, 0, 9, -1, -1) + bytes(18)
    assert first_batch(untimed) == Batch(40, 200, 10)
    assert first_batch(b"") is None
    assert first_batch(header[:16] + b"\x01" + header[17:]) is None
