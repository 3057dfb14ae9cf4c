"""The sampled estimator's interval, held against whole logs of batches in segments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from dashboard.domain.model import Batch, BatchSamples, LogDirsAnswer, ReplicaSize, TopicPartition
from dashboard.estimate.curves import SKEW
from dashboard.purge.evidence import sampled
from dashboard.purge.plan.resolve import ResolvedTarget
from tests.support.cluster import FakeCluster
from tests.support.examples import examples
from tests.unit.purge.facts_of import KEY, facts, partition


class Log(FakeCluster):
    """One replica's log: the batch that holds an offset is found, as by a Fetch."""

    def __init__(self, batches: Sequence[Batch], segment_bytes: int) -> None:
        super().__init__()
        self.kept = batches
        self.segment_bytes = segment_bytes
        self.bases = [b.base_offset for b in batches]
        self.end = batches[-1].base_offset + batches[-1].offsets
        self.segments: list[tuple[int, int]] = []  # base offset, bytes
        for batch in batches:
            if not self.segments or self.segments[-1][1] + batch.size_bytes > segment_bytes:
                self.segments.append((batch.base_offset, 0))
            base, size = self.segments[-1]
            self.segments[-1] = (base, size + batch.size_bytes)

    def batches(
        self, offsets: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, BatchSamples]:
        found = {self.kept[bisect_right(self.bases, o) - 1] for o in offsets[KEY]}
        ordered = tuple(sorted(found, key=lambda b: b.base_offset))
        return {KEY: BatchSamples(*KEY, ordered)}

    def log_dirs(
        self,
        partitions: Iterable[TopicPartition] | None = None,  # noqa: ARG002  (there is one)
    ) -> LogDirsAnswer:
        whole = sum(size for _, size in self.segments)
        return LogDirsAnswer((), (ReplicaSize(1, "/d", *KEY, whole, 0, False),), {})

    def freed_below(self, target: int) -> int:
        """Whole segments below an offset; the active one stays."""
        following = [base for base, _ in self.segments[1:]]
        return sum(
            size for (_, size), after in zip(self.segments, following, strict=False)
            if after <= target
        )  # fmt: skip


def of_records(sizes: Sequence[tuple[int, int]]) -> list[Batch]:
    """Batches of (records, bytes each), one after the other."""
    begins = accumulate((count for count, _ in sizes), initial=0)
    return [
        Batch(base, count * each, count) for base, (count, each) in zip(begins, sizes, strict=False)
    ]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Records that grow or shrink up to fourteenfold, slowly or at once, in 2 to 200 segments."""
    chance = draw(st.randoms(use_true_random=False))
    batches, most = draw(st.integers(20, 600)), draw(st.sampled_from([1, 10, 700]))
    small, growth = draw(st.integers(20, 400)), draw(st.integers(1, SKEW - 2))
    changes_at, suddenly, shrink = draw(st.floats(0, 1)), draw(st.booleans()), draw(st.booleans())

    def each(at: float) -> int:
        grown = float(at >= changes_at) if suddenly else at
        return round(small * (1 + (growth - 1) * (1 - grown if shrink else grown)))

    found = of_records([(chance.randint(1, most), each(i / batches)) for i in range(batches)])
    whole = sum(b.size_bytes for b in found)
    segments = draw(st.integers(2, 200))
    return Log(found, max(whole // segments, *(b.size_bytes for b in found)))


@examples(100)
@given(logs(), st.floats(0.02, 1))
def test_what_leaves_lies_in_the_interval_wherever_records_change(log: Log, share: float) -> None:
    target = max(1, round(log.end * share))
    configs = {"segment.bytes": str(log.segment_bytes)}
    seen = facts(partition(high=log.end, stable=log.end), configs=configs)
    told = sampled.estimates(log, seen, {KEY: ResolvedTarget(target)})[KEY]
    truth = log.freed_below(target)
    assert told.bytes_at_once_low is not None
    assert told.bytes_at_once is not None
    assert told.bytes_at_once_high is not None
    assert told.bytes_at_once_low <= truth <= told.bytes_at_once_high
    assert told.bytes_at_once_low <= told.bytes_at_once <= told.bytes_at_once_high
