"""Where epochs end in a log that lost them: one rule for findings, and for plans that ask live."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from dashboard.domain.model import EpochEnd, TopicPartition
from dashboard.history.epoch_ends import read_lost
from dashboard.safety import committed_offsets
from dashboard.safety.committed_offsets import EPOCH_ENDS, tells

KEY = TopicPartition("t", 0)
END = 10_000


class Leader:
    """Answers as LeaderEpochFileCache.endOffsetFor; `ends`: of each epoch that the log has."""

    def __init__(self, ends: Mapping[int, int]) -> None:
        self.ends = ends

    def epoch_ends(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        found = {}
        for key, epoch in asked.items():
            floor = max((e for e in self.ends if e <= epoch), default=None)
            end = None if floor is None or epoch > max(self.ends) else self.ends[floor]
            found[key] = EpochEnd(*key, None if end is None else floor, end)
        return found


def known(leader: Leader, ends_then: Mapping[int, int], *, version: int = 5) -> pa.Table:
    """What a snapshot keeps that asked for these; version 4 kept no epoch that was answered."""
    lost = read_lost(leader, {KEY: ends_then})
    rows = [
        {"topic_no": 0, "partition": 0, "leader_epoch": epoch, "end_offset": end,
         "of_this_log": (KEY, epoch) not in lost.foreign,
         "floor_epoch": lost.foreign.get((KEY, epoch)) if version == 5 else None}
        for epoch, end in lost.ends.get(KEY, {}).items()
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=EPOCH_ENDS)


def ended(epoch: int, table: pa.Table) -> int | None:
    numbers = pa.array([0], pa.int32())
    found = committed_offsets.ends(numbers, numbers, pa.array([epoch], pa.int32()), table)
    return found.to_pylist()[0]  # type: ignore[no-any-return]


def believed(offset: int, end: int | None) -> bool:
    ends = pa.array([end], pa.int64())
    return bool(tells(pa.array([offset]), pa.array([True]), pa.array([END]), ends)[0].as_py())


@pytest.mark.parametrize("third", [600, 6000])  # below what was known of epoch 7, and above
@pytest.mark.parametrize(("epoch", "offset"), [(2, 500), (3, 550), (3, 650), (4, 700), (5, 900),
                                               (6, 2500), (7, 4000)])  # fmt: skip
def test_findings_believe_a_commit_of_an_epoch_between_two_as_a_plan_does(
    third: int, epoch: int, offset: int
) -> None:
    """The log lost epochs 4 to 7 to a replica that missed them all: it was asked of 7 alone."""
    leader = Leader({2: 550, 3: third, 8: END})
    of_findings = ended(epoch, known(leader, {7: 5000}))
    live = read_lost(leader, {KEY: {epoch: offset}}).ends.get(KEY, {}).get(epoch)
    assert believed(offset, of_findings) is believed(offset, live)
    assert believed(offset, of_findings) is (epoch <= 3 and offset <= third)


def test_of_two_foreign_epochs_each_speaks_down_to_what_answered_for_it() -> None:
    table = known(Leader({3: 600, 6: 800, 9: END}), {5: 700, 8: 2000})
    found = {epoch: ended(epoch, table) for epoch in range(3, 11)}
    assert found == {3: 600, 4: 0, 5: 0, 6: 800, 7: 0, 8: 0, 9: None, 10: None}


def test_what_an_earlier_version_kept_speaks_for_its_own_epoch_alone() -> None:
    table = known(Leader({3: 600, 8: END}), {7: 5000}, version=4)
    assert {epoch: ended(epoch, table) for epoch in (3, 4, 6, 7, 8)} == {
        3: 600, 4: None, 6: None, 7: 0, 8: None,
    }  # fmt: skip


def test_an_epoch_above_all_that_the_leader_knows_speaks_for_itself_alone() -> None:
    table = known(Leader({3: 600}), {7: 5000})
    assert {epoch: ended(epoch, table) for epoch in (3, 5, 7)} == {3: None, 5: None, 7: 0}
