"""What a curve says to keep is kept: bytes that earlier purges left on the disk count for none."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from analytics.replicas import curves, history
from analytics.replicas.curves import with_segments
from analytics.replicas.points import Points
from dashboard.domain.model import EpochEnd, TopicPartition
from dashboard.estimate.curve_tables import ReplicaCurves
from dashboard.history.epoch_ends import read_lost
from dashboard.safety.committed_offsets import EPOCH_ENDS
from tests.unit.analytics.logs import MINUTE, Log, freed, looks, nothing, places, seen

KEY = TopicPartition("t", 0)


@dataclass
class Kept(Log):
    """A log whose segments leave at the next retention check, as a broker's do, and which its
    leader epochs are known of: `began` has each one's first offset (LeaderEpochFileCache).
    """

    epoch: int = 0
    began: dict[int, int] = field(default_factory=lambda: {0: 0})

    def elect(self, cut: int | None = None) -> None:
        """Another leader epoch, whose leader has the log up to `cut` alone."""
        if cut is not None:
            del self.sizes[cut:]
            self.bases = [base for base in self.bases if base <= cut]
        self.epoch += 1
        self.began = {e: at for e, at in self.began.items() if at < self.end}
        self.began[self.epoch] = self.end

    def epoch_ends(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        """As a leader answers (LeaderEpochFileCache.endOffsetFor)."""
        return {key: EpochEnd(*key, *self._end_of(epoch)) for key, epoch in asked.items()}

    def _end_of(self, epoch: int) -> tuple[int, int]:
        newer = [at for e, at in self.began.items() if e > epoch]
        floor = max((e for e in self.began if e <= epoch), default=epoch)
        return floor, min(newer, default=self.end)

    def check(self) -> None:
        self.truncate(self.start)

    def clean(self) -> None:
        """Half of each record below the active segment was of older values."""
        for offset in range(self.bases[-1]):
            self.sizes[offset] //= 2

    def above(self, offset: int) -> int:
        return sum(self.sizes[offset:])


class Watched:
    """The curve of one replica, as a snapshot a minute draws it."""

    def __init__(self) -> None:
        self.curves = nothing()
        self.snapshots = 0

    @property
    def now(self) -> int:
        """After the newest snapshot, and before the next one; microseconds."""
        return self.snapshots * MINUTE + MINUTE // 2

    def look(
        self,
        read: Points,
        inventory: list[dict[str, Any]] | None = None,
        ends: pa.Table | None = None,
    ) -> None:
        """`ends`: what the snapshot was told of leader epochs; without it nothing was asked."""
        self.snapshots += 1
        now = looks(self.snapshots)
        grown, _ = history.extended(self.curves, read, looks=now, ends_told=ends)
        if inventory:
            rows = pa.Table.from_pylist(inventory).select(curves.COLUMNS)
            grown = with_segments(rows, self.curves, grown, read)
        self.curves = ReplicaCurves(read.places, grown)

    def lost(self, log: Kept, *, answers: bool = True) -> pa.Table:
        """What a snapshot asks a leader whose epoch is another one by now; without an answer it
        knows no end.
        """
        found = self.curves.curves
        if not len(found.first) or found.epoch[0] == log.epoch:
            return EPOCH_ENDS.empty_table()
        epoch, end = int(found.epoch[0]), int(found.offset[-1])
        place = {"topic_no": 0, "partition": 0}
        if not answers:
            return pa.Table.from_pylist([{**place, "leader_epoch": epoch}], schema=EPOCH_ENDS)
        told = read_lost(log, {KEY: {epoch: end}})
        rows = [
            {**place, "leader_epoch": e, "end_offset": at,
             "of_this_log": (KEY, e) not in told.foreign, "floor_epoch": told.foreign.get((KEY, e))}
            for e, at in told.ends.get(KEY, {}).items()
        ]  # fmt: skip
        return pa.Table.from_pylist(rows, schema=EPOCH_ENDS)

    def counts(self, log: Kept) -> bool:
        """Whether a plan believes the curve, by where its leader epoch ends by now."""
        return self.lost(log).num_rows == 0

    def keeping(self, keep: int) -> int:
        (offset,), _ = self.curves.curves.keeping(np.array([keep]))
        return int(offset)

    def surely(self) -> list[tuple[int, int]]:
        """Offset and what lies at or above it, of each knot."""
        found = self.curves.curves
        return list(zip(found.offset.tolist(), found.surely.tolist(), strict=True))

    def untrue(self, log: Kept) -> list[tuple[int, int]]:
        """Those of `surely` of which less lies there; none may be."""
        return [
            (offset, surely)
            for offset, surely in self.surely()
            if offset >= log.start and surely > log.above(offset)
        ]


def told(
    log: Kept,
    *,
    late: int = 0,
    ends_told: bool = True,
    delete_only: bool = True,
    epoch: int | None = None,
) -> Points:
    """One snapshot, whose size is read before the last `late` records were written; `epoch`: where
    its metadata are older than the newest election.
    """
    size = log.size - min(sum(log.sizes[log.end - late :]), log.size)
    return seen(
        [log.start], [log.end], [size], places("t"), ends_told=ends_told, delete_only=delete_only,
        leader_epoch=log.epoch if epoch is None else epoch,
    )  # fmt: skip


def happens(dice: random.Random, log: Kept, offset: int, *, compacts: bool) -> bool:
    """Something between two snapshots; whether the topic is compacted from then on."""
    calm = ["", "", "", "", "check", "purge", "purge all", "cleaner", "switch"]
    what = dice.choice([*calm, "election", "cut", "cut"])
    if what == "check":
        log.check()
    elif what == "election":
        log.elect()
    elif what == "cut":
        log.elect(max(log.start, log.end - dice.randint(1, 15)))
    elif what == "purge":
        log.start = max(log.start, offset)
    elif what == "purge all":
        log.start = log.end - 1
    elif what in {"cleaner", "switch"} and compacts and dice.random() < 0.7:
        log.clean()
    return compacts != (what == "switch")


@pytest.mark.further_but("0", "6", "12", "18", "24")
@pytest.mark.parametrize("seed", range(30))
def test_no_purge_keeps_fewer_bytes_than_it_was_to(seed: int) -> None:
    """By curves of any snapshot, whatever was purged, cleaned, rolled, deleted, and lost by
    elections between them; nobody may tell of those, or only the next snapshot.
    """
    dice, log, watched = random.Random(seed), Kept(), Watched()
    compacts, preallocate = dice.random() < 0.3, dice.random() < 0.5
    keep, offset = dice.choice([1, 300, 1000, 4000]), 0
    log.append([40])
    inventory = log.rows()
    for _ in range(60):
        if dice.random() < 0.3:
            inventory = log.rows(watched.now, preallocate=preallocate)
        led = log.epoch
        compacts = happens(dice, log, offset, compacts=compacts)
        count = dice.randint(1, 12)
        log.append([dice.choice([1, 40, 300, 900])] * count)
        ends_told, late = dice.random() < 0.95, max(dice.randint(-5, 5), 0)
        read = told(
            log, late=min(late, count), ends_told=ends_told, delete_only=not compacts,
            epoch=led if dice.random() < 0.1 else None,
        )  # fmt: skip
        ends = watched.lost(log, answers=dice.random() < 0.9) if dice.random() < 0.95 else None
        watched.look(read, inventory if dice.random() < 0.3 else None, ends)
        if not compacts and watched.counts(log):  # else there is no such target
            offset = watched.keeping(keep)
            assert offset <= log.start or log.above(offset) >= keep
            assert watched.untrue(log) == []


def cut(watched: Watched, log: Kept, at: int, sizes: list[int]) -> None:
    log.elect(at)
    log.append(sizes)
    watched.look(told(log), ends=watched.lost(log))


@pytest.mark.parametrize(
    ("at", "sizes"), [(1500, [10] * 4600), (5500, [10] * 600), (0, [10] * 6000)]
)
def test_a_log_that_lost_its_end_and_grew_past_it_begins_anew(at: int, sizes: list[int]) -> None:
    """Larger records were lost than came: its end tells nothing, where its epoch ends does."""
    log, watched = Kept(segment_bytes=10**9), Watched()
    for count in (1000, 1000, 4000):
        log.append([100] * count)
        watched.look(told(log))
    assert watched.keeping(190_000) == 1000
    cut(watched, log, at, sizes)
    assert watched.surely() == [(0, 0), (log.end, 0)]
    for _ in range(3):
        log.append([100] * 1000)
        watched.look(told(log))
    assert watched.untrue(log) == []
    assert log.above(watched.keeping(90_000)) >= 90_000


def test_what_was_sure_before_an_election_that_lost_nothing_of_it_stays_sure() -> None:
    """A rolling restart: what was written meanwhile is lost in part, and counts for nothing."""
    log, watched = Kept(), Watched()
    for _ in range(10):
        log.append([100] * 10)
        watched.look(told(log))
    before = dict(watched.surely())
    end = log.end
    log.append([900] * 10)
    cut(watched, log, end + 5, [100] * 20)
    assert {o: s for o, s in watched.surely() if s} == {o: s for o, s in before.items() if s}
    assert watched.keeping(3000) == 60
    for _ in range(5):
        log.append([100] * 10)
        watched.look(told(log))
    assert watched.untrue(log) == []
    assert watched.keeping(3000) == 135, "growth counts from the second step on"


@pytest.mark.parametrize("asked", [True, False])
def test_where_nobody_tells_what_an_election_lost_nothing_is_sure(asked: bool) -> None:
    log, watched = Kept(), Watched()
    for _ in range(10):
        log.append([100] * 10)
        watched.look(told(log))
    log.elect()
    log.append([100] * 10)
    below = watched.curves.curves.below.tolist()
    watched.look(told(log), ends=watched.lost(log, answers=False) if asked else None)
    assert not any(surely for _, surely in watched.surely())
    assert watched.curves.curves.below.tolist() == [*below, 11_000], "its estimates go on"


def test_a_follower_that_cuts_its_log_only_after_a_snapshot_saw_the_election() -> None:
    """What it had from the leader before counts for nothing, and hides nothing."""
    log, watched = Kept(segment_bytes=10**9), Watched()
    for _ in range(5):
        log.append([100] * 10)
        watched.look(told(log))
    follower = Kept(sizes=[*log.sizes, *[900] * 10], segment_bytes=10**9)  # its leader had more
    log.elect()
    log.append([1] * 30)
    read = told(follower, epoch=log.epoch)
    watched.look(read, ends=watched.lost(log))
    watched.look(told(log))
    assert watched.untrue(log) == []
    for _ in range(3):
        log.append([100] * 10)
        watched.look(told(log))
        assert watched.untrue(log) == []


def test_growth_that_hides_what_a_cleaner_took_counts_for_nothing() -> None:
    """A topic whose updates are compacted every ten minutes is made one that only deletes."""
    log, watched = Kept(segment_bytes=2000), Watched()
    for minute in range(1, 61):
        log.append([100] * 10)
        if minute % 10 == 0 and minute <= 40:
            log.clean()
        watched.look(told(log, delete_only=minute > 40))
        assert minute > 40 or not any(surely for _, surely in watched.surely())
    assert watched.untrue(log) == []
    assert watched.keeping(10_000) == 470, "what was written since two snapshots know it"
    assert watched.keeping(20_000) == 0


def test_one_snapshot_of_a_compacted_topic_forgets_what_was_sure() -> None:
    log, watched = Kept(), Watched()
    for minute in range(12):
        log.append([100] * 10)
        watched.look(told(log, delete_only=minute != 6))
        if minute == 5:
            assert watched.keeping(3000) > 0
        if minute == 6:
            assert not any(surely for _, surely in watched.surely())
    log.append([100] * 10)
    watched.look(told(log))
    assert watched.keeping(3000) > 0


@pytest.mark.parametrize(("scanned_after", "surely"), [(0, 0), (1, 3500)])
def test_an_inventory_counts_from_the_first_snapshot_on_that_saw_no_compaction(
    scanned_after: int, surely: int
) -> None:
    """Of an older one a cleaner may have taken, though its segments are not larger than the log."""
    log, watched = Kept(), Watched()
    log.append([100] * 35)
    rows = log.rows(watched.now)
    watched.look(told(log))
    if scanned_after:
        rows = log.rows(watched.now)
    for _ in range(2):
        watched.look(told(log), rows)
        assert watched.surely()[0] == (0, surely)


def test_an_inventory_of_a_tail_that_was_lost_draws_nothing_where_the_log_has_grown_past_it() -> (
    None
):
    """The scan saw what no snapshot did: by those the election lost nothing."""
    log, watched = Kept(), Watched()
    for _ in range(4):
        log.append([100] * 10)
        watched.look(told(log))
    log.append([100] * 15)
    rows = log.rows(watched.now)
    assert rows[-1]["base_offset"] == 50
    log.elect(42)
    for _ in range(3):
        log.append([300] * 2)
        watched.look(told(log), rows, ends=watched.lost(log))
    log.append([900, 1, 1, 1])
    watched.look(told(log, late=4), rows)
    log.append([1])
    watched.look(told(log), rows)
    assert watched.untrue(log) == []


def test_an_inventory_that_is_read_again_does_not_take_away_what_came_since() -> None:
    log, watched = Kept(), Watched()
    log.append([100] * 35)
    rows = log.rows(watched.now)  # before the first snapshot: it tells where segments begin
    for _ in range(12):
        log.append([100] * 10)
        watched.look(told(log), rows)
    assert (watched.untrue(log), watched.keeping(3000)) == ([], 30)


def test_a_file_made_long_in_advance_counts_as_the_bytes_that_the_broker_tells() -> None:
    log, watched = Kept(), Watched()
    log.append([100] * 21)
    watched.look(told(log))
    watched.look(told(log), log.rows(watched.now, preallocate=True))
    assert watched.surely() == [(0, 2100), (10, 1100), (20, 100), (21, 0)]
    assert (watched.keeping(100), watched.keeping(500)) == (20, 10)
    read = freed(watched.curves.curves, 0, 20)
    assert read.once_low[0] == read.once[0] == read.once_high[0] == 2000
    assert freed(watched.curves.curves, 0, 21).high[0] == 2100


def test_what_is_on_its_way_out_leaves_no_room_for_a_file_made_long_in_advance() -> None:
    """Segments below the log start are deleted by the next check; until then a size has them."""
    log, watched = Kept(), Watched()
    log.append([100] * 31)
    log.start = 20
    watched.look(told(log))
    watched.look(told(log), log.rows(watched.now, preallocate=True))
    gone = [(0, 1100), (10, 1100)]  # nothing of theirs is sure to be there
    assert watched.surely() == [*gone, (20, 1100), (30, 100), (31, 0)]
    rows = log.rows(watched.now, preallocate=True)
    log.check()
    watched.look(told(log), rows)
    assert watched.untrue(log) == []


def test_a_follower_that_catches_up_grows_below_the_ends_that_its_leader_tells() -> None:
    watched, size = Watched(), 0
    for minute in range(1, 12):
        end = 600 + 10 * minute  # a byte each; the follower copies sixty a minute
        size = min(60 * minute, end)
        watched.look(seen([0], [end], [size], places("t"), ends_told=False))
    assert not any(surely for _, surely in watched.surely())
    for minute in range(12, 16):
        end = 600 + 10 * minute
        watched.look(seen([0], [end], [end], places("t")))
    assert all(surely <= end - offset for offset, surely in watched.surely())
    assert watched.keeping(10) == 730, "from the second snapshot on in which it told its end"


def test_a_replica_takes_over_what_is_sure_of_another_once_it_told_its_own_end() -> None:
    both = pa.concat_tables([places("t"), places("t")]).set_column(
        2, "broker_id", pa.array([1, 2], pa.int32())
    )
    for ends_told, sure in ((False, 0), (True, 20)):
        watched = Watched()
        for end in (10, 20, 30, 40):
            watched.look(seen([0], [end], [end], both.slice(0, 1)))
        watched.look(seen([0, 0], [50, 50], [50, 50], both, ends_told=ends_told))
        second = watched.curves.curves.first[1]
        assert watched.surely()[second][1] == sure


def test_a_snapshot_without_the_replicas_own_end_only_adds_nothing() -> None:
    log, watched = Kept(), Watched()
    for minute in range(5):
        log.append([100] * 10)
        watched.look(told(log, ends_told=minute != 4))
        if minute == 3:
            sure = dict(watched.surely())
    assert any(sure.values())
    assert all(surely == sure.get(offset, 0) for offset, surely in watched.surely())


def _alike(_: random.Random, __: int) -> int:
    return 10


def _uneven(dice: random.Random, _: int) -> int:
    return max(1, int(10 * dice.lognormvariate(0, 0.6)))


def _by_the_hour(_: random.Random, minute: int) -> int:
    return 4 if minute // 60 % 2 else 20


@pytest.mark.further_but("20000-100000-_uneven")
@pytest.mark.parametrize("sizes", [_alike, _uneven, _by_the_hour])
@pytest.mark.parametrize(("keep", "segment"), [(20_000, 100_000), (100_000, 10_000)])
def test_a_policy_that_keeps_bytes_keeps_them_and_little_more(
    sizes: Callable[[random.Random, int], int], keep: int, segment: int
) -> None:
    """It purges by the minute; segments leave every five, the active one with its dead bytes."""
    dice, log, watched = random.Random(1), Kept(segment_bytes=segment), Watched()
    after = []
    for minute in range(400):
        size = sizes(dice, minute)
        log.append([size] * 100)
        if minute % 5 == 4:
            log.check()
        watched.look(told(log))
        offset = watched.keeping(keep)
        if offset > log.start:
            log.start = offset
            after.append(log.above(offset) / keep)
    assert len(after) > 20
    assert min(after) >= 1
    assert float(np.median(after)) < 1.5
