"""What groups surely read: no more than they did, whatever moves their offsets.

Hours of a topic that somebody reads unseen: of what left the brokers, what he fetched must be left
over, but for what groups that were down may seem to have read within an hour.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest

from dashboard.safety.explained import measures
from dashboard.safety.progress import Sample
from dashboard.safety.unseen_readers import Measure

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
TOPIC = "orders"
RATE = 10_000  # records an hour to each partition
HOUR_MS = 3_600_000


@dataclass
class Group:
    """`offsets` by partition, None where it has committed nothing."""

    name: str
    offsets: list[int | None]
    members: bool = True


@dataclass
class Log:
    """A partition on broker 1; what is held may be shortened, and records change their size."""

    record_bytes: int
    start: int = 0
    end: int = 50_000
    size: int = 0
    made: int = 0

    def __post_init__(self) -> None:
        self.size = self.end * self.record_bytes

    def write(self, records: int) -> None:
        self.end += records
        self.made += records * self.record_bytes
        self.size += records * self.record_bytes

    def shorten(self) -> None:
        """Retention lets go of half of it, where all of its records are of one size."""
        gone = (self.end - self.start) // 2
        self.size -= gone * self.record_bytes
        self.start += gone


@dataclass
class Topic:
    logs: list[Log]
    groups: list[Group]
    sent: int = 0  # bytes out
    unseen: int = 0  # of them to him who does not commit
    samples: list[Sample] = field(default_factory=list)

    def read(self, group: Group, number: int, up_to: int) -> None:
        """It fetches what follows its offset, and commits."""
        log, offset = self.logs[number], group.offsets[number]
        assert offset is not None
        self.sent += max(0, up_to - max(offset, log.start)) * log.record_bytes
        group.offsets[number] = up_to

    def hour(self, unseen: float = 1.0) -> None:
        """Records are written; the unseen reader reads them so many times."""
        for log in self.logs:
            log.write(RATE)
            fetched = round(RATE * log.record_bytes * unseen)
            self.sent += fetched
            self.unseen += fetched

    def look(self, at: datetime, *, made: bool = True) -> None:
        rows = [
            (group.name, number, offset)
            for group in self.groups
            for number, offset in enumerate(group.offsets)
            if offset is not None
        ]
        names, numbers, offsets = (list(x) for x in zip(*rows, strict=True)) if rows else ([],) * 3
        count = len(self.logs)
        written = float(sum(log.made for log in self.logs))
        self.samples.append(
            Sample(
                at,
                {1: {TOPIC: float(self.sent)}},
                pa.table(
                    {
                        "group_id": pa.array(names, pa.string()),
                        "topic": pa.array([TOPIC] * len(rows), pa.string()),
                        "partition": pa.array(numbers, pa.int32()),
                        "offset": pa.array(offsets, pa.int64()),
                    }
                ),
                pa.table(
                    {
                        "topic": [TOPIC] * count,
                        "partition": pa.array(range(count), pa.int32()),
                        "broker_id": [1] * count,
                        "start": [log.start for log in self.logs],
                        "end": [log.end for log in self.logs],
                        "size_bytes": [log.size for log in self.logs],
                        "segment_bytes": [1] * count,
                    }
                ),
                {TOPIC: frozenset({1})},
                {1: (float(self.sent), float(self.sent))},
                {1: {TOPIC: written}} if made else {},
                frozenset(g.name for g in self.groups if g.members),
            )
        )

    def measure(self) -> Measure:
        (found,) = measures(self.samples, [TOPIC])
        return found


def hours(topic: Topic, count: int = 24) -> Iterable[tuple[int, datetime]]:
    """Each hour once its records are written; a sample is taken at its end."""
    topic.look(BEGAN)
    for hour in range(1, count + 1):
        topic.hour()
        at = BEGAN + timedelta(hours=hour)
        yield hour, at
        topic.look(at)


def steady(count: int, partitions: int = 1) -> list[Group]:
    return [Group(f"g{n}", [50_000] * partitions) for n in range(count)]


def test_groups_that_read_on_have_read_all_of_it() -> None:
    topic = Topic([Log(1000)], steady(2))
    for _ in hours(topic):
        for group in topic.groups:
            topic.read(group, 0, topic.logs[0].end)
    assert topic.measure().left_bytes == topic.unseen


@pytest.mark.parametrize("members", [False, True])
@pytest.mark.parametrize("down", [3, 8, 20])
def test_a_jump_over_a_backlog_is_no_reading(down: int, members: bool) -> None:
    """Five groups are down, and a tool sets them to the end before they go on; or they hang until
    retention has gone past them, and they begin at the end by themselves (`latest`).
    """
    topic = Topic([Log(1000)], steady(5))
    for hour, _ in hours(topic):
        for group in topic.groups:
            stands = 2 < hour < 2 + down
            group.members = members or not stands
            if hour == 2 + down:
                group.offsets[0] = topic.logs[0].end - RATE // 10
            if not stands:
                topic.read(group, 0, topic.logs[0].end)
    left = topic.measure().left_bytes
    assert left is not None and left >= topic.unseen


def test_a_group_that_was_deleted_and_begins_at_the_end_has_read_nothing_of_the_gap() -> None:
    topic = Topic([Log(1000)], steady(3))
    for hour, _ in hours(topic):
        for group in topic.groups:
            if 2 < hour < 20:
                group.offsets[0] = None
                continue
            group.offsets[0] = group.offsets[0] or topic.logs[0].end - 5
            topic.read(group, 0, topic.logs[0].end)
    left = topic.measure().left_bytes
    assert left is not None and left >= topic.unseen


def test_who_has_no_members_has_read_nothing() -> None:
    """A mirror copies the offsets of groups that read another cluster."""
    topic = Topic([Log(1000)], steady(2))
    for _ in hours(topic):
        for group in topic.groups:
            group.members, group.offsets[0] = False, topic.logs[0].end
    assert topic.measure().left_bytes == topic.unseen


def test_samples_that_are_far_apart_say_nothing_of_what_was_read_between_them() -> None:
    topic = Topic([Log(1000)], steady(1))
    topic.look(BEGAN)
    for hour in (6, 12, 18, 24):
        for _ in range(6):
            topic.hour()
        topic.read(topic.groups[0], 0, topic.logs[0].end)
        topic.look(BEGAN + timedelta(hours=hour))
    assert topic.measure().left_bytes == topic.sent


def test_who_reads_far_behind_has_read_nothing_of_the_span() -> None:
    """It passes small records of days ago; the large ones of today somebody else reads."""
    topic = Topic([Log(10)], [Group("g", [0])])
    topic.logs[0].write(RATE * 25)
    topic.logs[0].record_bytes = 1000
    for hour, _ in hours(topic):
        topic.groups[0].offsets[0] = RATE * hour
    assert topic.measure().left_bytes == topic.unseen


def test_many_small_records_of_one_partition_are_few_bytes() -> None:
    """Its old ones were larger; the few large ones of another are read by nobody who commits."""
    topic = Topic([Log(100_000), Log(10_000)], [Group("g", [None, 50_000])])
    topic.logs[1].record_bytes = 10
    for _ in hours(topic):
        topic.read(topic.groups[0], 1, topic.logs[1].end)
    assert topic.measure().left_bytes == topic.unseen


@pytest.mark.parametrize("missing", [(), (1,), (5, 6), (24,)])
def test_a_series_that_misses_a_scrape_was_not_written_at_once(missing: tuple[int, ...]) -> None:
    """What was produced in the life of the broker is not what was produced that day: a tenth of
    what the broker stores, since it stores uncompressed what producers compress.
    """
    topic = Topic([Log(1000, made=10**12)], steady(1))
    topic.look(BEGAN, made=0 not in missing)
    for hour in range(1, 25):
        topic.hour()
        topic.logs[0].made -= RATE * 900
        topic.logs[0].shorten()
        topic.read(topic.groups[0], 0, topic.logs[0].end)
        topic.look(BEGAN + timedelta(hours=hour), made=hour not in missing)
    left, produced = topic.measure().left_bytes, 24 * RATE * 100
    assert left is not None and left >= topic.sent - produced


class Day:
    """What happens to a drawn topic; `seemingly`: bytes that a group may seem to have read."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        sizes = [self.rng.choice((10, 1000, 50_000)) for _ in range(self.rng.randint(1, 3))]
        self.topic = Topic([Log(s) for s in sizes], steady(self.rng.randint(1, 6), len(sizes)))
        self.grows = self.rng.random() < 0.5
        self.unseen = self.rng.choice((0.3, 1.0, 3.0))
        self.seemingly = 0
        self.down: dict[str, int] = {}

    def play(self) -> None:
        topic, rng = self.topic, self.rng
        for hour, _ in hours(topic):
            topic.hour(self.unseen - 1) if self.unseen > 1 else None
            for group in topic.groups:
                self._group(group, hour)
            if not self.grows and rng.random() < 0.2:
                rng.choice(topic.logs).shorten()

    def _group(self, group: Group, hour: int) -> None:
        rng, topic = self.rng, self.topic
        if group.name not in self.down and rng.random() < 0.05:
            self.down[group.name] = hour + rng.randint(1, 8)
        ends = self.down.get(group.name, 0)
        group.members = hour >= ends or (group.members and rng.random() < 0.8)
        if hour < ends:
            if not group.members and rng.random() < 0.3:  # a tool, or a mirror
                group.offsets = [log.end for log in topic.logs]
            elif rng.random() < 0.1:
                group.offsets = [None] * len(topic.logs)
            return
        back = self.down.pop(group.name, None) is not None
        how = rng.choice(("on", "latest", "earliest")) if back else "on"
        for number, log in enumerate(topic.logs):
            at = group.offsets[number]
            if how == "latest" or at is None:
                at = log.end - rng.randint(0, RATE // 2)
                self.seemingly += RATE * 2 * log.record_bytes
            elif how == "earliest":
                at = log.start
            group.offsets[number] = at
            topic.read(group, number, max(at, log.end - rng.choice((0, 0, 5, RATE // 4))))


@pytest.mark.further_but("50")
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_what_nobody_of_a_group_fetched_is_left(first: int) -> None:
    for seed in range(first, first + 50):
        day = Day(seed)
        day.play()
        left = day.topic.measure().left_bytes
        assert left is None or left >= day.topic.unseen - day.seemingly, seed


def test_of_a_log_that_went_back_nobody_knows_what_was_read() -> None:
    """An unclean election, or a topic that was made anew: it grows past its begin again."""
    topic = Topic([Log(1000)], steady(2))
    for hour, _ in hours(topic):
        if hour == 12:
            topic.logs[0].end = 10_000
        for group in topic.groups:
            topic.read(group, 0, topic.logs[0].end)
    assert topic.logs[0].end > 50_000
    assert topic.measure().left_bytes is None


def test_what_lies_between_samples_where_a_counter_began_anew_was_not_counted() -> None:
    topic = Topic([Log(1000)], steady(1))
    for hour, _ in hours(topic):
        topic.read(topic.groups[0], 0, topic.logs[0].end)
        if hour in (5, 17):
            topic.sent = 10
    found = topic.measure()
    assert (found.reading.window_ms, found.counted_ms) == (24 * HOUR_MS, 22 * HOUR_MS)
    assert found.unbroken_ms == 11 * HOUR_MS
    assert found.reading.why == "the counters of broker 1 began anew between samples"


@pytest.mark.parametrize(("sent", "hours_counted"), [(5.0, 20), (0.0, 0)])
def test_between_samples_far_apart_a_counter_that_stands_at_0_may_have_begun_anew(
    sent: float, hours_counted: int
) -> None:
    topic = Topic([Log(1000)], [], sent=round(sent))
    for hour in (0, 10, 20):
        topic.look(BEGAN + timedelta(hours=hour))
    assert topic.measure().counted_ms == hours_counted * HOUR_MS
