"""Whether somebody reads a topic whom no group shows: bytes out against what groups explain.

BytesOutPerSec of `kafka.server:type=BrokerTopicMetrics` counts the bytes that consumers fetched
from a broker, whoever they are and whether or not they commit; followers' fetches are counted
apart, in ReplicationBytesOutPerSec. A group that committed its way forward explains the records
it passed. What is left over was read by nobody who commits.

A suspicion ends by a later measurement alone: metrics that stay away say nothing of the reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypedDict

from dashboard.core.canonical import LATER, Count, Text
from dashboard.core.clock import format_time
from dashboard.core.words import binary
from dashboard.domain.model import Guard
from dashboard.safety.guard_texts import guard, unmeasured

# What was measured longer ago is not the present.
WINDOW = timedelta(hours=24)

# A known group may fetch its records twice (a rebalance, a crash before the commit, an average
# record size that is off); what it cannot do is fetch all of them twice as a rule.
FACTOR = 2
# One look by a tool or a person fetches up to max.partition.fetch.bytes, 1 MiB by default, of
# each partition: that is no reader.
LOOK_BYTES_PER_PARTITION = 1 << 20
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
# The last sample of a day and the first of the next are some seconds more or less apart.
_NEARLY_A_DAY_MS = _DAY_MS - _HOUR_MS
# Who reads once a day may have read in the hour before a restart: of measures that lost as much as
# this part of the time it takes two.
_LOST = 1 / 8
# A known group fetches again what it had not committed, and what it surely read is rather too low
# (a topic of few segments): that may be this part of what left, as a rule.
_AGAIN = 1 / 4
# For so many days on end groups may read twice what is not explained, and hide a reader: a backlog
# is read in a day or two, and no further back is looked for one who was suspected.
_DAYS_OF_COVER = 7


@dataclass(frozen=True, slots=True)
class TopicReading:
    """Bytes that left a topic in a window, and those its groups explain; None: not measured.

    `why` says what kept it from being measured, or on which brokers it was not. An unmeasured
    broker makes `bytes_out` a lower bound. `until`: the present cannot be told, and these are the
    numbers of the last time that counts, which ended then.
    """

    topic: Text
    bytes_out: Count | None = None
    explained_bytes: Count | None = None
    window_ms: Count | None = None
    partitions: Count = 1
    why: Text | None = "no broker metrics are kept"
    until: Text | None = field(default=None, metadata=LATER)

    @property
    def suspected(self) -> bool:
        """Bytes out above FACTOR x what is explained, and above one look at every partition."""
        if self.bytes_out is None or self.explained_bytes is None:
            return False
        return self.bytes_out > FACTOR * self.explained_bytes + self.floor

    @property
    def clears(self) -> bool:
        """Nobody was suspected, however large the records are that groups passed."""
        if self.bytes_out is None:
            return False
        if self.explained_bytes is None:
            return self.bytes_out <= self.floor
        return not self.suspected

    @property
    def unexplained_bytes(self) -> int:
        """What left beyond what groups explain; 0 where that was not measured."""
        return max(0, (self.bytes_out or 0) - (self.explained_bytes or 0))

    @property
    def floor(self) -> int:
        """A look a day."""
        days = max(1, round((self.window_ms or 0) / _DAY_MS))
        return LOOK_BYTES_PER_PARTITION * self.partitions * days

    @property
    def measured(self) -> str:
        """`measured`, `partly measured` (some brokers were not) or `not measured`."""
        if self.until or self.bytes_out is None or self.explained_bytes is None:
            return "not measured"
        return "partly measured" if self.why else "measured"

    def an_hour(self, size_bytes: int | None) -> int | None:
        """Bytes of the window as bytes an hour."""
        if size_bytes is None or not self.window_ms:
            return None
        return round(size_bytes * _HOUR_MS / self.window_ms)

    def to_json(self) -> dict[str, object]:
        """A row of the preview: what was measured, in bytes an hour."""
        return {
            "topic": self.topic,
            "measured": self.measured,
            "suspected": self.suspected,
            "bytes_out_an_hour": self.an_hour(self.bytes_out),
            "explained_bytes_an_hour": self.an_hour(self.explained_bytes),
            "window_ms": self.window_ms,
            "why": self.why,
            "until": self.until,
        }


@dataclass(frozen=True, slots=True)
class Measure:
    """A reading of one span of kept snapshots that ended at `at`.

    `whole`: every broker that held a replica of the topic was counted, not some of them alone.
    `counted_ms`: how much of the span each of them surely counted: not what lies between two
    samples where its counters began anew, or may have, unseen. `unbroken_ms`: without such a gap.
    `left_bytes`: what may have left beyond what groups surely read of the records that were written
    in the span; None: nobody can tell. What they explain (`reading`) is an estimate that is rather
    too high: it raises no false alarm, and ends none that is true.
    """

    reading: TopicReading
    whole: bool
    at: datetime
    counted_ms: int
    unbroken_ms: int
    left_bytes: int | None = None

    @property
    def nothing_left(self) -> bool:
        """Nobody read: groups read all but a look. Groups that read much are no cover then."""
        return self.left_bytes is not None and self.left_bytes <= self._counted.floor

    def shows_no_more(self, suspicion: Measure) -> bool:
        """Whether who was suspected is not seen: less than half of what was not explained then
        is left, and no more than groups fetch again: records may have become smaller.
        """
        if self.left_bytes is None:
            return False
        left, then = self._counted.an_hour(self.left_bytes) or 0, suspicion.reading
        less = 2 * left < (then.an_hour(then.unexplained_bytes) or 0)
        again = self.left_bytes <= _AGAIN * (self.reading.bytes_out or 0) + self._counted.floor
        return self.nothing_left or (less and again)

    @property
    def _counted(self) -> TopicReading:
        """As if all had left in the time that was counted: a gap dilutes nothing."""
        return replace(self.reading, window_ms=self.counted_ms)

    @property
    def span_ms(self) -> int:
        """Its length, of which no more than a day counts."""
        return min(self.reading.window_ms or 0, _DAY_MS)


class Verdict:
    """What a topic's measures say together: they are added newest first until it is `settled`.

    A suspicion stands until later measures end it: whole ones (readers follow leaders to brokers
    that nobody counts) with less than half of it left (a group that catches up on a backlog
    explains its own bytes alone), that counted as long a time (in minutes every reader is slow):
    one without a break, or two that each lost little of it to counters that began anew.
    """

    def __init__(self, topic: str) -> None:
        self.settled = False
        self._topic = TopicReading(topic, why="no broker of it has two samples of metrics")
        self._newest: Measure | None = None
        self._suspicion: Measure | None = None
        self._clear: list[Measure] = []  # of whole measures that suspected nobody

    def add(self, measure: Measure) -> None:
        """The next older measure; nothing once it is settled."""
        if self.settled:
            return
        self._newest = self._newest or measure
        if measure.reading.suspected and not self._ended(measure):
            self._suspicion, self.settled = measure, True
        elif measure.whole and measure.reading.clears:
            self._clear.append(measure)
            days = [m for m in self._clear if m.counted_ms >= _NEARLY_A_DAY_MS]
            nobody = any(m.nothing_left and m.unbroken_ms >= _DAY_MS for m in days)
            self.settled = nobody or len(days) > _DAYS_OF_COVER

    def _ended(self, suspicion: Measure) -> bool:
        wanted = suspicion.span_ms
        showing = [m for m in self._clear if m.shows_no_more(suspicion)]
        nearly = [m for m in showing if m.counted_ms >= (1 - _LOST) * wanted]
        return len(nearly) > 1 or any(m.unbroken_ms >= wanted for m in showing)

    @property
    def measure(self) -> Measure | None:
        """The suspicion that stands, or the newest measure."""
        return self._suspicion or self._newest

    def reading(self, now: datetime) -> TopicReading:
        """Of that measure; `until` where it is not of now."""
        if self._newest is None:
            return self._topic
        # A clock that ran ahead tells nothing of now.
        old = abs(now - self._newest.at) > WINDOW
        counts = self._suspicion or self._newest
        if counts is self._newest and not old:
            return counts.reading
        why = _AWAY if old else self._newest.reading.why or self._since(counts)
        return replace(counts.reading, why=why, until=format_time(counts.at))

    def _since(self, suspicion: Measure) -> str:
        newest = self._newest
        return _SHORTER if newest and newest.unbroken_ms < suspicion.span_ms else _COVERED


_AWAY = "no broker of it has sent metrics since"
_SHORTER = "what was counted since is of a shorter time"
_COVERED = "what groups surely read of it since is too little to tell"


def suspicion(found: TopicReading) -> Guard | None:
    """The guard that stands for what was read; whoever judges unseen readers asks this."""
    name, topic = "unseen-reader-suspected", found.topic
    out, explained = (
        binary(found.an_hour(size) or 0) for size in (found.bytes_out, found.explained_bytes)
    )
    if found.until is not None:
        before = f"sent out {out} an hour where its groups explained {explained}"
        return unmeasured(topic, found.until, str(found.why), before if found.suspected else None)
    if found.suspected:
        return guard(name, topic=topic, bytes_out=out, explained=explained)
    return None


# What the findings `unseen_readers` tell.

# A day is measured anew within an hour and a half, and analyses are no older as a rule.
_LATELY = timedelta(hours=3)


class Finding(TypedDict):
    """A row of the findings table `unseen_readers`, as far as it is read here."""

    topic: str
    bytes_out: int | None
    explained_bytes: int | None
    window_ms: int | None
    partitions: int
    why: str | None
    until: datetime | None
    whole: bool
    measured_at: datetime
    counted_ms: int
    unbroken_ms: int
    left_bytes: int | None


def of_finding(row: Finding) -> TopicReading:
    """The reading that a row tells."""
    return TopicReading(
        row["topic"],
        row["bytes_out"],
        row["explained_bytes"],
        row["window_ms"],
        row["partitions"],
        row["why"],
        format_time(row["until"]) if row["until"] else None,
    )


def measure_of(row: Finding) -> Measure:
    """The measure that a row rests on: the suspicion that stands, or the newest."""
    told = of_finding(row)
    # What is said of a present that cannot be told is of that analysis, not of the measure.
    reading = replace(told, until=None, why=None if told.until else told.why)
    return Measure(
        reading, row["whole"], row["measured_at"], row["counted_ms"], row["unbroken_ms"],
        row["left_bytes"],
    )  # fmt: skip


def settled(rows: Iterable[Finding], now: datetime) -> dict[str, TopicReading]:
    """The readings of topics whose measure is of now, and which nothing older would change."""
    found = {}
    for row in rows:
        measure = measure_of(row)
        verdict = Verdict(measure.reading.topic)
        verdict.add(measure)
        if verdict.settled and abs(now - measure.at) <= _LATELY:
            found[measure.reading.topic] = verdict.reading(now)
    return found


def reading_of(readings: Mapping[str, TopicReading], topic: str) -> TopicReading:
    """What is known of a topic; one that nobody measured says so."""
    return readings.get(topic) or TopicReading(topic)


# What samples of a cluster measure.
