"""What of a topic's bytes out groups explain by the records that they committed past.

Arrays over kept snapshots and their broker metrics; the verdict on them is `unseen_readers`, which
loads no tables.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise, starmap

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column
from dashboard.domain.columns import Ints
from dashboard.domain.metric_names import Floats, increase
from dashboard.safety.unseen_readers import LOOK_BYTES_PER_PARTITION, Measure, TopicReading


@dataclass(frozen=True, slots=True)
class Sample:
    """What one snapshot tells of the topics asked about.

    `bytes_out` maps a broker to topic -> its counter since its start; a broker that tells any bytes
    out stands there even without a topic. `bytes_in`: the same of what was produced, where it is
    told. `sums` maps it to its count over all topics beside the
    sum of its counters by topic, where it tells the former. `commits` has a row by group_id, topic
    and partition with `offset`; `leaders` one by topic and partition with `broker_id`, `start` and
    `end` (the log's offsets), `size_bytes` and `segment_bytes` (of a segment, at most), null where
    unknown; `hosts` maps a topic to the brokers of its replicas.
    """

    taken_at: datetime
    bytes_out: Mapping[int, Mapping[str, float]]
    commits: pa.Table
    leaders: pa.Table
    hosts: Mapping[str, frozenset[int]]
    sums: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    bytes_in: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


def measures(samples: list[Sample], topics: Iterable[str]) -> list[Measure]:
    """What samples, oldest first, measure of each topic; nothing where no broker has two of them.

    Bytes out is the sum of counter differences per broker; a counter that fell began anew at 0
    (a restart, or the leadership that went and came). Explained is an estimate: the progress of
    every group's committed offset on a partition x the leader's bytes by offset there
    (`_record_bytes`). A group's first commit counts from the log start.

    Both are of the same span: where brokers answered in fewer samples than others, those alone
    measure them all, and all samples measure the others.
    """
    if not samples:
        return []
    hosts, silent = _hosts(samples), _silent(samples)
    partitions = Counter(samples[-1].leaders["topic"].to_pylist())
    progress: dict[tuple[int, ...], tuple[dict[str, int | None], dict[str, Passed]]] = {}
    found = []
    for topic in topics:
        of_topic = hosts.get(topic, frozenset())
        telling = [
            _telling(s, topic, mute) & of_topic for s, mute in zip(samples, silent, strict=True)
        ]
        for brokers, numbers in _spans(telling):
            span = [samples[n] for n in numbers]
            if numbers not in progress:
                rows = _rows(span)
                progress[numbers] = _explained(rows), _passed(rows)
            explained, read = progress[numbers]
            reading = TopicReading(
                topic,
                round(sum(_counted([s.bytes_out for s in span], b, topic) for b in brokers)),
                explained.get(topic, 0),
                _span_ms(span),
                partitions[topic] or 1,
                None,
            )
            left = _left(span, brokers, topic, read.get(topic), reading)
            found.append(_measure(reading, brokers, hosts[topic], span[-1].taken_at, left))
    return sorted(found, key=lambda m: (m.at, m.reading.suspected), reverse=True)


def _hosts(samples: list[Sample]) -> dict[str, frozenset[int]]:
    """Who hosted a topic at any time of the span: bytes left the replicas before a move, too."""
    found: dict[str, frozenset[int]] = {}
    for sample in samples:
        for topic, brokers in sample.hosts.items():
            found[topic] = found.get(topic, frozenset()) | brokers
    return found


# Counters by topic that vanish with a deleted topic, or with the leadership of one, leave a gap.
_ACCOUNTED = 0.9


def _silent(samples: list[Sample]) -> list[frozenset[int]]:
    """Of each sample the brokers that left topics out: their counters by topic do not add up to
    what left the broker since the sample before.

    Series by topic are the first that somebody drops: then no counter does not mean no fetch.
    """
    last: dict[int, tuple[float, float]] = {}
    found = []
    for sample in samples:
        mute = set()
        for broker, sums in sample.sums.items():
            out, told = _accounted(last.get(broker, sums), sums)
            if not told >= _ACCOUNTED * out - LOOK_BYTES_PER_PARTITION:  # NaN as well
                mute.add(broker)
            last[broker] = sums
        found.append(frozenset(mute))
    return found


def _accounted(then: tuple[float, float], now: tuple[float, float]) -> tuple[float, float]:
    """What left a broker between two of its `sums`, and how much of it counters by topic tell."""
    if now[0] < then[0]:  # it was started anew, and all began at 0
        then = (0.0, 0.0)
    return now[0] - then[0], max(0.0, now[1] - then[1])


def _telling(sample: Sample, topic: str, silent: frozenset[int]) -> frozenset[int]:
    """The brokers that count the topic, if only at 0."""
    return frozenset(b for b, told in sample.bytes_out.items() if topic in told or b not in silent)


def _spans(telling: list[frozenset[int]]) -> Iterator[tuple[frozenset[int], tuple[int, ...]]]:
    """Which brokers are counted over which samples: those that answered most, then more."""
    answers = Counter(b for brokers in telling for b in brokers)
    for least in sorted({n for n in answers.values() if n > 1}, reverse=True):
        brokers = frozenset(b for b, n in answers.items() if n >= least)
        joint = tuple(n for n, some in enumerate(telling) if brokers <= some)
        if len(joint) > 1:
            yield brokers, joint


def _span_ms(span: list[Sample]) -> int:
    return max(1, round((span[-1].taken_at - span[0].taken_at).total_seconds() * 1000))


def _measure(
    reading: TopicReading,
    brokers: frozenset[int],
    hosts: frozenset[int],
    at: datetime,
    left_bytes: int | None,
) -> Measure:
    """The measure, with what kept it from being a whole one."""
    silent = ", ".join(str(b) for b in sorted(hosts - brokers))
    if reading.explained_bytes is None:
        reading = replace(reading, why="the size of its records is unknown")
    elif silent:
        reading = replace(
            reading, why=f"broker {silent} has no two samples of its metrics within a day"
        )
    return Measure(reading, not silent, at, left_bytes)


def _counted(counts: Sequence[Mapping[int, Mapping[str, float]]], broker: int, topic: str) -> float:
    # A topic without a counter was not fetched since the broker's start: Kafka makes it then.
    seen = [each[broker].get(topic, 0.0) for each in counts if broker in each]
    told = np.array([count for count in seen if math.isfinite(count)])  # exporters may say NaN
    return float(increase(told[:-1], told[1:]).sum())


def _left(
    span: Sequence[Sample],
    brokers: frozenset[int],
    topic: str,
    read: Passed | None,
    reading: TopicReading,
) -> int | None:
    """What may have left beyond what groups surely read; None: nobody can tell.

    What brokers without a counter of the topic count of no topic at all may be this one's.
    """
    made = [s.bytes_in for s in span]
    told = any(topic in each.get(broker, ()) for each in made for broker in brokers)
    written = sum(_counted(made, broker, topic) for broker in brokers) if told else math.nan
    surely = 0.0 if read is None else read.surely(written)
    if math.isnan(surely):
        return None
    gone = [b for b in brokers if any(topic not in s.bytes_out.get(b, {}) for s in span)]
    left = (reading.bytes_out or 0) + sum(_unaccounted(span, broker) for broker in gone) - surely
    return round(max(0.0, left)) if math.isfinite(left) else None


def _unaccounted(span: Sequence[Sample], broker: int) -> float:
    """What left a broker in the span of which no counter by topic tells; 0 where it does not tell
    its count over all topics, NaN where that was no number.
    """
    sums = (sample.sums[broker] for sample in span if broker in sample.sums)
    gaps = [out - told for out, told in starmap(_accounted, pairwise(sums))]
    return float(np.maximum(gaps, 0.0).sum())


@dataclass(frozen=True, slots=True)
class _Rows:
    """All commits and leaders of a span, with the number of their sample.

    `at` and `place` number the topics (`names`) and partitions of both; `earlier`: which commit is
    the one before of the same group and partition, -1: none; `record_bytes` by offset of each place
    in `every`, sorted; `last`: the number of the last sample.
    """

    commits: pa.Table
    leaders: pa.Table
    names: pa.Array
    at: Ints
    place: Ints
    earlier: Ints
    every: Ints
    record_bytes: Floats
    last: int


def _rows(span: Sequence[Sample]) -> _Rows:
    commits, leaders = _numbered([s.commits for s in span]), _numbered([s.leaders for s in span])
    names = pc.unique(pa.concat_arrays([column(t, "topic") for t in (commits, leaders)]))
    at, place = _places(commits, names), _places(leaders, names)
    group = column(commits, "group_id").dictionary_encode().indices.to_numpy()
    order = np.lexsort((commits["sample"].to_numpy(), at, group))
    again = (np.diff(group[order]) == 0) & (np.diff(at[order]) == 0)
    earlier = np.full(len(order), -1)
    earlier[order[1:]] = np.where(again, order[:-1], -1)
    every = np.unique(np.concatenate([at, place]))
    weighed = _record_bytes(leaders, place, every)
    return _Rows(commits, leaders, names, at, place, earlier, every, weighed, len(span) - 1)


def _explained(rows: _Rows) -> dict[str, int | None]:
    """Topic -> bytes that its groups' progress explains; None where record sizes are unknown."""
    place = np.searchsorted(rows.every, rows.at)
    progress = np.bincount(place, _progress(rows), len(rows.every))
    moved = progress > 0
    explained = (progress * rows.record_bytes)[moved]
    topic = rows.every[moved] >> _PARTITION_BITS
    totals = np.bincount(topic, explained, len(rows.names)).tolist()
    return {
        rows.names[of].as_py(): None if math.isnan(totals[of]) else round(totals[of])
        for of in np.unique(topic).tolist()
    }


def _progress(rows: _Rows) -> Ints:
    """By how many offsets each commit is further than its group's one before it, or than the log
    start of the sample before; 0 in the first sample, and of one that went back.
    """
    sample, offset = (rows.commits[name].to_numpy() for name in ("sample", "offset"))
    start = pc.coalesce(_of_leaders(rows, "start", sample - 1), pa.array(offset)).to_numpy()
    before = np.where(rows.earlier >= 0, offset[rows.earlier], start)
    return np.asarray(np.where(sample > 0, np.maximum(offset - before, 0), 0))


def _of_leaders(rows: _Rows, name: str, sample: Ints) -> pa.Array:
    """What the leader of each commit's partition told in a sample; null where it told nothing."""
    number = rows.leaders["sample"].to_numpy()
    there = pa.array(_moment(rows.place, number))
    return column(rows.leaders, name).take(
        pc.index_in(pa.array(_moment(rows.at, sample)), value_set=there)
    )


def _record_bytes(leaders: pa.Table, place: Ints, wanted: Ints) -> Floats:
    """Bytes by offset at each wanted place, NaN where nobody can tell: the least of a span that was
    held, but no more than is sure.

    A purge moves the log start inside a segment, which stays whole, and segments below it stay for
    minutes: what is held seems as much larger then as the dead records weigh. Sure is all of a log
    that begins at 0; what lies beyond one segment, over all offsets since the start that the span
    began with; and by how much a replica grew beside its log end.
    """
    broker, start, end, size, segment, sample = (
        pc.cast(leaders[name], pa.float64()).to_numpy()
        for name in ("broker_id", "start", "end", "size_bytes", "segment_bytes", "sample")
    )
    at = np.minimum(np.searchsorted(wanted, place), max(len(wanted) - 1, 0))
    asked = wanted[at] == place if len(wanted) else np.zeros(len(place), dtype=bool)

    def by_place(of: np.ufunc, values: Floats) -> Floats:
        found = np.full(len(wanted), np.nan)
        of.at(found, at[asked], values[asked])
        return found

    held = np.where(end > start, end - start, np.nan)
    sure = np.where(start == 0, size / held, np.nan)
    if asked.any():
        later = asked & (sample > by_place(np.fmin, sample)[at])
        since = end - by_place(np.fmin, start)[at]
        beyond = np.where(later & (since > 0), size - segment, np.nan) / since
        sure = np.where(start == 0, sure, beyond)
    order = np.lexsort((sample, place))
    one, next_one = order[:-1], order[1:]
    same = (place[one] == place[next_one]) & (broker[one] == broker[next_one])
    longer = np.where(same & (end[next_one] > end[one]), end[next_one] - end[one], np.nan)
    grown = np.full(len(place), np.nan)
    grown[next_one] = (size[next_one] - size[one]) / longer
    most, least = by_place(np.fmax, np.fmax(sure, grown)), by_place(np.fmin, size / held)
    return np.minimum(least, np.where(most > 0, most, np.where(least > 0, np.nan, least)))


@dataclass(frozen=True, slots=True)
class Passed:
    """What groups committed past of the records that were written to a topic in a span.

    `share` of all these records, summed over groups (2: two groups read all of them); `grown_bytes`
    is what the leaders grew by, NaN where that does not tell what was written; `held_bytes` what
    those records weigh by the size of what was held.
    """

    share: float
    grown_bytes: float
    held_bytes: float

    def surely(self, written_bytes: float) -> float:
        """Bytes that groups surely read, where so many were produced (NaN: nobody tells); NaN where
        nobody can tell. The least of what is known: brokers may compress what was produced anew.
        """
        if self.share == 0:
            return 0.0
        written = np.fmin(written_bytes, self.grown_bytes)  # of a NaN and a number the number
        read = written * self.share
        return float(np.minimum(read, self.held_bytes))  # a NaN where either is


def _passed(rows: _Rows) -> dict[str, Passed]:
    """`Passed` of each topic from the first sample of a span to its last. NaN where a partition has
    no leader in one of them, or a log went back: its share is unknown.

    From sample to sample a group counts no further than what was written meanwhile: who reads a
    backlog reads what was written before, and one that a tool sets to the end has read nothing. An
    offset that is seen for the first time says nothing of what its group read.
    """
    led, row = np.unique(rows.place, return_inverse=True)
    topic = led >> _PARTITION_BITS
    number = rows.leaders["sample"].to_numpy()

    def of(name: str, sample: int) -> Floats:
        values = np.full(len(led), np.nan)
        chosen = number == sample
        values[row[chosen]] = pc.cast(rows.leaders[name], pa.float64()).to_numpy()[chosen]
        return values

    last = rows.last
    begin, end = of("end", 0), of("end", last)
    written = np.where(end >= begin, end - begin, np.nan)
    same = (of("broker_id", 0) == of("broker_id", last)) & (of("start", 0) == of("start", last))
    grown = np.where(same, of("size_bytes", last) - of("size_bytes", 0), np.nan)

    sample, offset = (rows.commits[name].to_numpy() for name in ("sample", "offset"))
    ends = pc.cast(_of_leaders(rows, "end", sample), pa.float64()).to_numpy(zero_copy_only=False)
    (two,) = np.nonzero((rows.earlier >= 0) & np.isin(rows.at, led))
    one = rows.earlier[two]
    far = np.minimum(offset[two], ends[two]) - offset[one]
    far = np.nan_to_num(np.minimum(far, ends[two] - ends[one]))
    where = np.searchsorted(led, rows.at[one])
    by_place = np.bincount(where, np.maximum(far, 0.0), len(led)).astype(np.float64)
    record_bytes = rows.record_bytes[np.searchsorted(rows.every, led)]
    weight = np.where(by_place > 0, by_place * record_bytes, 0.0)

    def total(values: Floats) -> Floats:
        return np.bincount(topic, values, len(rows.names)).astype(np.float64)

    known = np.unique(topic)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total(written) == 0, 0.0, total(by_place) / total(written))
    columns = (share, total(grown), total(weight))
    found = zip(*(values[known].tolist() for values in columns), strict=True)
    return {
        rows.names[n].as_py(): Passed(*each) for n, each in zip(known.tolist(), found, strict=True)
    }


_PARTITION_BITS, _SAMPLE_BITS = 20, 12  # Kafka's own limits are far below


def _places(rows: pa.Table, names: pa.Array) -> Ints:
    """A number for each topic and partition."""
    topic = pc.index_in(column(rows, "topic"), value_set=names).cast(pa.int64()).to_numpy()
    partition = column(rows, "partition").cast(pa.int64()).to_numpy()
    return np.asarray(topic << _PARTITION_BITS | partition)


def _moment(place: Ints, sample: Ints) -> Ints:
    return np.asarray(place << _SAMPLE_BITS | sample + 1)


def _numbered(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows, with the number of their `sample`."""
    each = [pa.array(np.full(len(rows), number)) for number, rows in enumerate(tables)]
    return pa.concat_tables(
        rows.append_column("sample", number) for rows, number in zip(tables, each, strict=True)
    )
