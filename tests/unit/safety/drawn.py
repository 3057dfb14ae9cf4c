"""A cluster that Hypothesis draws, as a live one and as the snapshots that were taken of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import numpy as np
from hypothesis import strategies as st

from dashboard.collect.epochs import epoch_ends
from dashboard.collect.tables import Answers, build_tables, to_arrow
from dashboard.domain.columns import LeaderOffsets, Sizes, place
from dashboard.domain.model import (
    EpochEnd,
    Group,
    GroupOffset,
    TopicPartition,
)
from dashboard.purge.plan.facts import with_later_ends
from dashboard.store.snapshots import ClusterStore
from tests.support.cluster import FakeCluster, FakePartition
from tests.unit.purge.facts_of import NOW, TOPIC

DAY = timedelta(days=1)
NEWEST = 3  # leader epoch
GROUPS = ("app", "b", "c", "share")
PARTITIONS = 3


class Drawn(FakeCluster):
    """One topic of some partitions; `listed` are its groups, `offsets` what they committed."""

    def __init__(
        self,
        parts: dict[TopicPartition, FakePartition],
        listed: tuple[Group, ...],
        committed: tuple[GroupOffset, ...],
        *,
        id_of_topic: str = "id-1",
        policy: str = "delete",
        incomplete_because: tuple[str, ...] = (),
    ) -> None:
        super().__init__(0)
        self.parts, self.topic_id, self.incomplete = parts, id_of_topic, incomplete_because
        self.offsets_of, self.others = {}, (listed, committed)
        self.topic_configs, self.broker_configs = {"cleanup.policy": policy}, {}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        """As a leader answers: the end of the log for its own epoch, nothing for a later one."""
        found = {}
        for key, epoch in epochs.items():
            part = self.parts[key]
            end = part.high_watermark if epoch == part.epoch else part.epoch_ends.get(epoch)
            found[key] = EpochEnd(*key, None if end is None else epoch, end)
        return found


@st.composite
def offsets(draw: st.DrawFn, end: int) -> int:
    """A committed offset: mostly of this log, now and then past its end."""
    return draw(st.one_of(st.integers(0, end), st.just(end), st.integers(end + 1, end + 500)))


def epochs(newest: int) -> st.SearchStrategy[int | None]:
    """The leader epoch of a commit: most committers tell one, often that of now."""
    return st.one_of(st.none(), st.just(newest), st.integers(0, newest))


@st.composite
def clusters(draw: st.DrawFn) -> Drawn:
    parts, committed = {}, []
    members = draw(st.sets(st.sampled_from(GROUPS[:3])))
    kinds = {g: "share" if g == "share" else draw(st.sampled_from(("classic", "consumer")))
             for g in GROUPS}  # fmt: skip
    present = draw(st.sets(st.sampled_from(GROUPS)))
    assigned: dict[str, list[TopicPartition]] = {g: [] for g in GROUPS}
    for number in range(draw(st.integers(1, PARTITIONS))):
        key = TopicPartition(TOPIC, number)
        start = draw(st.integers(0, 60))
        stable = draw(st.integers(start, 100))
        high = draw(st.integers(stable, 100))
        parts[key] = FakePartition(
            dict.fromkeys((1, 2, 3), start), high_watermark=high, last_stable_offset=stable,
            isr=draw(st.sampled_from([(1, 2, 3), (1, 2, 3), (1, 2)])), epoch=NEWEST,
            epoch_ends=dict(enumerate(sorted(draw(st.tuples(*[st.integers(0, high)] * NEWEST))))),
        )  # fmt: skip
        for group in sorted(present):
            if draw(st.integers(0, 3)):
                told = draw(st.one_of(epochs(NEWEST), st.just(NEWEST + 1)))
                offset = draw(offsets(high))
                committed.append(GroupOffset(group, TOPIC, number, offset, None, told))
            if group in members and draw(st.booleans()):
                assigned[group].append(key)
    listed = tuple(
        Group(
            g, kinds[g], draw(st.sampled_from(("Stable", "Empty", "PreparingRebalance"))),
            draw(st.sampled_from((1, None))) if g in members else 0, tuple(assigned[g]),
            patterns=draw(st.sampled_from(((), (), ("ord.*",), ("other.*",)))),
            is_streams=g == "app" and draw(st.booleans()),
        )
        for g in sorted(present)
    )  # fmt: skip
    return Drawn(
        parts, listed, tuple(committed),
        policy=draw(st.sampled_from(("delete", "delete", "compact,delete", "compact"))),
        incomplete_because=draw(st.sampled_from(((), (), ("broker 2 gave no answer",)))),
    )  # fmt: skip


@st.composite
def pasts(draw: st.DrawFn, now: Drawn) -> Drawn:
    """The same topic a day ago: other logs, other commits, perhaps of a topic made anew since.

    An epoch that led then may have lost its end since, and with it what older ones had there.
    """
    parts = {key: draw(former(part)) for key, part in now.parts.items()}
    committed = tuple(
        GroupOffset(g, TOPIC, key.partition, draw(offsets(100)), None, draw(epochs(part.epoch)))
        for g in ("b", "gone") for key, part in parts.items() if draw(st.booleans())
    )  # fmt: skip
    streams = len(committed) % 2 == 1
    # Members may be gone by now, and have died before a first commit.
    reading = draw(st.frozensets(st.sampled_from(("b", "gone", "crashed")), max_size=2))
    empty = {o.group_id for o in committed} - reading
    listed = (
        *(Group(g, "classic", "Empty", 0, is_streams=streams) for g in sorted(empty)),
        *(Group(g, "classic", "Stable", 1, (min(parts),), is_streams=streams and g != "crashed")
          for g in sorted(reading)),
    )  # fmt: skip
    return Drawn(
        parts, listed, committed, id_of_topic=draw(st.sampled_from(("id-1", "id-1", "id-0")))
    )


@st.composite
def former(draw: st.DrawFn, now: FakePartition) -> FakePartition:
    """The log from which that of now came, by losing an end or none."""
    epoch = draw(st.integers(0, NEWEST))
    left = now.epoch_ends.get(epoch, now.high_watermark)  # of what it had up to then
    older = [now.epoch_ends[e] for e in range(epoch)]
    end = max([draw(st.integers(0, 120)), *older])
    ends, least = {}, 0
    for at, its_end in enumerate(older):
        least = max(least, its_end)
        ends[at] = least = least if its_end < left else draw(st.integers(least, end))
    return FakePartition(
        dict.fromkeys((1, 2, 3), 0), high_watermark=end, last_stable_offset=end, epoch=epoch,
        epoch_ends=ends,
    )  # fmt: skip


def taken(store: ClusterStore, live: Drawn, at: datetime) -> str:
    """A snapshot of it in the store, by the functions that collect one."""
    topics = live.topics(None)
    placement = place(topics)
    listing = live.groups(())
    seen = with_later_ends(live, topics, live.offsets(sorted(live.parts)), listing)
    read = [seen[key] for key in sorted(live.parts)]
    ends = LeaderOffsets(
        *(np.array([getattr(o, name) for o in read], np.int64)
          for name in ("log_start_offset", "last_stable_offset", "high_watermark")),
        np.array([o.error for o in read], object),
    )  # fmt: skip
    cut, errors, _ = epoch_ends(live, store, topics, placement, offsets=ends, groups=listing)
    assert not errors
    answers = Answers(
        brokers=(), topics=topics, placement=placement, offsets=ends, epoch_ends=cut,
        replicas=None, sizes=Sizes((), {}, {}), groups=listing, configs=live.configs([TOPIC]),
        reassignments=(),
    )  # fmt: skip
    writer = store.begin("snapshots", at)
    for name, table in build_tables(answers).items():
        writer.write(name, to_arrow(name, table, writer.id, at))
    writer.commit(0.1, {"groups_incomplete": list(listing.incomplete)})
    return writer.id


def times() -> Mapping[str, datetime]:
    """When snapshots were taken: a day ago, an hour ago, and now."""
    return {"past": NOW - DAY, "between": NOW - timedelta(hours=1), "now": NOW}
