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
    explained: dict[tuple[int, ...], dict[str, int | None]] = {}
    read: dict[tuple[int, ...], dict[str, Passed]] = {}
    found = []
    for topic in topics:
        of_topic = hosts.get(topic, frozenset())
        telling = [
            _telling(s, topic, mute) & of_topic for s, mute in zip(samples, silent, strict=True)
        ]
        for brokers, numbers in _spans(telling):
            span = [samples[n] for n in numbers]
            if numbers not in explained:
                explained[numbers] = _explained(span)
                read[numbers] = passed(span)
            reading = TopicReading(
                topic,
                round(sum(_counted([s.bytes_out for s in span], b, topic) for b in brokers)),
                explained[numbers].get(topic, 0),
                _span_ms(span),
                partitions[topic] or 1,
                None,
            )
            left = _left(span, brokers, topic, read[numbers].get(topic), reading)
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
        for broker, (out, by_topic) in sample.sums.items():
            out_then, by_topic_then = last.get(broker, (out, by_topic))
            if out < out_then:  # it was started anew, and all began at 0
                out_then = by_topic_then = 0.0
            told = max(0.0, by_topic - by_topic_then)
            if not told >= _ACCOUNTED * (out - out_then) - LOOK_BYTES_PER_PARTITION:  # NaN as well
                mute.add(broker)
            last[broker] = (out, by_topic)
        found.append(frozenset(mute))
    return found


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
    gap = sum(_unaccounted(span, broker) for broker in gone)
    return round(max(0.0, (reading.bytes_out or 0) + gap - surely))


def _unaccounted(span: Sequence[Sample], broker: int) -> float:
    """What left a broker in the span of which no counter by topic tells; 0 where it does not tell
    its count over all topics.
    """
    sums = [s.sums[broker] for s in span if broker in s.sums]
    out, by_topic = (np.array([each[at] for each in sums]) for at in (0, 1))
    restarted = out[1:] < out[:-1]
    left = increase(out[:-1], out[1:])
    told = np.where(restarted, by_topic[1:], by_topic[1:] - by_topic[:-1])
    return float(np.nansum(np.maximum(left - np.maximum(told, 0.0), 0.0)))


def _explained(samples: Sequence[Sample]) -> dict[str, int | None]:
    """Topic -> bytes that its groups' progress explains; None where record sizes are unknown."""
    commits = _numbered([sample.commits for sample in samples])
    leaders = _numbered([sample.leaders for sample in samples])
    names = pc.unique(pa.concat_arrays([column(t, "topic") for t in (commits, leaders)]))
    at, place = _places(commits, names), _places(leaders, names)
    every, row = np.unique(at, return_inverse=True)
    progress = np.bincount(row, _progress(commits, at, leaders, place), len(every))
    moved = progress > 0
    explained = (progress * _record_bytes(leaders, place, every))[moved]
    topic = every[moved] >> _PARTITION_BITS
    totals = np.bincount(topic, explained, len(names)).tolist()
    return {
        names[of].as_py(): None if math.isnan(totals[of]) else round(totals[of])
        for of in np.unique(topic).tolist()
    }


def _progress(commits: pa.Table, at: Ints, leaders: pa.Table, place: Ints) -> Ints:
    """By how many offsets each commit is further than its group's one before it, or than the log
    start of the sample before; 0 in the first sample, and of one that went back.
    """
    group = column(commits, "group_id").dictionary_encode().indices.to_numpy()
    sample, offset = (commits[name].to_numpy() for name in ("sample", "offset"))
    order = np.lexsort((sample, at, group))
    again = (np.diff(group[order]) == 0) & (np.diff(at[order]) == 0)
    earlier = np.full(len(order), -1)
    earlier[order[1:]] = np.where(again, order[:-1], -1)
    started = pc.index_in(
        pa.array(_moment(at, sample - 1)),
        value_set=pa.array(_moment(place, leaders["sample"].to_numpy())),
    )
    start = column(leaders, "start").take(started)
    before = np.where(
        earlier >= 0, offset[earlier], pc.coalesce(start, pa.array(offset)).to_numpy()
    )
    return np.asarray(np.where(sample > 0, np.maximum(offset - before, 0), 0))


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


def passed(span: Sequence[Sample]) -> dict[str, Passed]:
    """`Passed` of each topic from the first sample of a span to its last. NaN where a partition has
    no leader in one of them, or a log went back: its share is unknown.

    From sample to sample a group counts no further than what was written meanwhile: who reads a
    backlog reads what was written before, and one that a tool sets to the end has read nothing. An
    offset that is seen for the first time says nothing of what its group read.
    """
    leaders, commits = _numbered([s.leaders for s in span]), _numbered([s.commits for s in span])
    names = pc.unique(pa.concat_arrays([column(t, "topic") for t in (leaders, commits)]))
    place, at = _places(leaders, names), _places(commits, names)
    every, row = np.unique(place, return_inverse=True)
    topic = every >> _PARTITION_BITS
    number = leaders["sample"].to_numpy()

    def of(name: str, sample: int) -> Floats:
        values = np.full(len(every), np.nan)
        chosen = number == sample
        values[row[chosen]] = pc.cast(leaders[name], pa.float64()).to_numpy()[chosen]
        return values

    last = len(span) - 1
    begin, end = of("end", 0), of("end", last)
    written = np.where(end >= begin, end - begin, np.nan)
    same = (of("broker_id", 0) == of("broker_id", last)) & (of("start", 0) == of("start", last))
    grown = np.where(same, of("size_bytes", last) - of("size_bytes", 0), np.nan)

    group = column(commits, "group_id").dictionary_encode().indices.to_numpy()
    sample, offset = (commits[name].to_numpy() for name in ("sample", "offset"))
    ends = pc.index_in(pa.array(_moment(at, sample)), value_set=pa.array(_moment(place, number)))
    up_to = pc.cast(column(leaders, "end").take(ends), pa.float64()).to_numpy(zero_copy_only=False)
    order = np.lexsort((sample, at, group))
    one, two = order[:-1], order[1:]
    pair = (group[one] == group[two]) & (at[one] == at[two]) & np.isin(at[one], every)
    one, two = one[pair], two[pair]
    far = np.minimum(offset[two], up_to[two]) - offset[one]
    far = np.nan_to_num(np.minimum(far, up_to[two] - up_to[one]))
    where = np.searchsorted(every, at[one])
    by_place = np.bincount(where, np.maximum(far, 0.0), len(every)).astype(np.float64)
    weight = np.where(by_place > 0, by_place * _record_bytes(leaders, place, every), 0.0)

    def total(values: Floats) -> Floats:
        return np.bincount(topic, values, len(names)).astype(np.float64)

    known = np.unique(topic)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total(written) == 0, 0.0, total(by_place) / total(written))
    columns = (share, total(grown), total(weight))
    rows = zip(*(values[known].tolist() for values in columns), strict=True)
    return {names[n].as_py(): Passed(*row) for n, row in zip(known.tolist(), rows, strict=True)}


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
