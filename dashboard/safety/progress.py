"""How far groups came over kept snapshots: the records that they committed past, and the bytes that
these weigh; as an estimate that is rather too high, and as what was surely read.

Arrays over the rows of all samples; `explained` holds them against what left the brokers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column
from dashboard.domain.columns import Ints
from dashboard.domain.metric_names import MOST_BETWEEN, Floats


@dataclass(frozen=True, slots=True)
class Told:
    """What one broker's source told in all: `totals` are its counters over all topics, by name;
    `sums` by name the sum of every number of it; `ends` reads the sum of the log ends of all
    partitions that the broker led, which brokers tell themselves (None: it cannot be read any
    more); `started` when the process began, in seconds.
    """

    totals: Mapping[str, float]
    sums: Mapping[str, float]
    ends: Callable[[], int | None]
    started: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """What one snapshot tells of the topics asked about.

    `bytes_out` maps a broker to topic -> its counter since its start; a broker that tells any bytes
    out stands there even without a topic. `bytes_in`: the same of what was produced, where it is
    told. `sums` maps it to its count over all topics beside the
    sum of its counters by topic, where it tells the former. `commits` has a row by group_id, topic
    and partition with `offset`; `leaders` one by topic and partition with `broker_id`, `start` and
    `end` (the log's offsets), `size_bytes` and `segment_bytes` (of a segment, at most), null where
    unknown; `hosts` maps a topic to the brokers of its replicas; `joined` are groups with members;
    `told` maps a broker to what tells whether its counters went on. `ours` are bytes that Lowwater
    itself fetched since the sample before, by topic and broker; of topics in `going_on` it may have
    been fetching some when the sample was taken.
    """

    taken_at: datetime
    bytes_out: Mapping[int, Mapping[str, float]]
    commits: pa.Table
    leaders: pa.Table
    hosts: Mapping[str, frozenset[int]]
    sums: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    bytes_in: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    joined: frozenset[str] = frozenset()
    told: Mapping[int, Told] = field(default_factory=dict)
    ours: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    going_on: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rows:
    """All commits and leaders of a span, with the number of their sample, and of commits whether
    their group had `members`.

    `at` and `place` number the topics (`names`) and partitions of both; `earlier`: which commit is
    the one before of the same group and partition, -1: none; `record_bytes` by offset of each place
    in `every`, sorted; `taken`: when each sample was, in ms since the first.
    """

    commits: pa.Table
    leaders: pa.Table
    names: pa.Array
    at: Ints
    place: Ints
    earlier: Ints
    every: Ints
    record_bytes: Floats
    taken: Floats


def rows_of(span: Sequence[Sample]) -> Rows:
    commits = _numbered([_with_members(s) for s in span])
    leaders = _numbered([s.leaders for s in span])
    names = pc.unique(pa.concat_arrays([column(t, "topic") for t in (commits, leaders)]))
    at, place = _places(commits, names), _places(leaders, names)
    group = column(commits, "group_id").dictionary_encode().indices.to_numpy()
    order = np.lexsort((commits["sample"].to_numpy(), at, group))
    again = (np.diff(group[order]) == 0) & (np.diff(at[order]) == 0)
    earlier = np.full(len(order), -1)
    earlier[order[1:]] = np.where(again, order[:-1], -1)
    every = np.unique(np.concatenate([at, place]))
    weighed = _record_bytes(leaders, place, every)
    taken = np.array([(s.taken_at - span[0].taken_at).total_seconds() * 1000 for s in span])
    return Rows(commits, leaders, names, at, place, earlier, every, weighed, taken)


def explained(rows: Rows) -> dict[str, int | None]:
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


def _progress(rows: Rows) -> Ints:
    """By how many offsets each commit is further than its group's one before it, or than the log
    start of the sample before; 0 in the first sample, and of one that went back.
    """
    sample, offset = (rows.commits[name].to_numpy() for name in ("sample", "offset"))
    start = pc.coalesce(_of_leaders(rows, "start", sample - 1), pa.array(offset)).to_numpy()
    before = np.where(rows.earlier >= 0, offset[rows.earlier], start)
    return np.asarray(np.where(sample > 0, np.maximum(offset - before, 0), 0))


def _of_leaders(rows: Rows, name: str, sample: Ints) -> pa.Array:
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


def passed(rows: Rows) -> dict[str, Passed]:
    """`Passed` of each topic from the first sample of a span to its last. NaN where a partition has
    no leader in one of them, or a log went back in between: its share is unknown.

    From sample to sample a group counts no further than what was written meanwhile, and only where
    nothing else moves its offset: not without members in either (a tool sets it, a mirror copies
    it); not where it went much further than that (a backlog, or a jump over one); and between
    samples that are close, of which none is left out: who was down meanwhile may begin at the end.
    """
    led, row = np.unique(rows.place, return_inverse=True)
    topic = led >> _PARTITION_BITS
    number = rows.leaders["sample"].to_numpy()

    def of(name: str, sample: int) -> Floats:
        values = np.full(len(led), np.nan)
        chosen = number == sample
        values[row[chosen]] = pc.cast(rows.leaders[name], pa.float64()).to_numpy()[chosen]
        return values

    last = len(rows.taken) - 1
    begin, end = of("end", 0), of("end", last)
    written = np.where(_went_back(rows, row, len(led)), np.nan, end - begin)
    same = (of("broker_id", 0) == of("broker_id", last)) & (of("start", 0) == of("start", last))
    grown = np.where(same, of("size_bytes", last) - of("size_bytes", 0), np.nan)

    by_place = _read_on(rows, led, begin)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_grown = by_place / written * grown
    record_bytes = rows.record_bytes[np.searchsorted(rows.every, led)]
    weight = np.where(by_place > 0, np.fmin(by_place * record_bytes, of_grown), 0.0)

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


def _went_back(rows: Rows, row: Ints, places: int) -> npt.NDArray[np.bool_]:
    """Which places' log ends fell between any two of their samples; `row`: each leader's place.

    An unclean election, a lost disk, a topic that was made anew: it may grow past its begin again.
    """
    ends = pc.cast(rows.leaders["end"], pa.float64()).to_numpy()
    (known,) = np.nonzero(np.isfinite(ends))
    order = known[np.lexsort((rows.leaders["sample"].to_numpy()[known], row[known]))]
    fell = (np.diff(row[order]) == 0) & (np.diff(ends[order]) < 0)
    return np.bincount(row[order[1:]][fell], minlength=places) > 0


_MUCH_FURTHER = 1.5


def _read_on(rows: Rows, led: Ints, begin: Floats) -> Floats:
    """How many records groups surely read in each of the places `led`, of those that were written
    between two samples; `begin`: where each log ended as the span began.
    """
    sample, offset, joined = (
        rows.commits[name].to_numpy() for name in ("sample", "offset", "joined")
    )
    ends = pc.cast(_of_leaders(rows, "end", sample), pa.float64()).to_numpy(zero_copy_only=False)
    (two,) = np.nonzero((rows.earlier >= 0) & np.isin(rows.at, led))
    one = rows.earlier[two]
    apart = rows.taken[sample[two]] - rows.taken[sample[one]]
    close = (sample[two] == sample[one] + 1) & (apart <= MOST_BETWEEN.total_seconds() * 1000)
    written, far = ends[two] - ends[one], np.minimum(offset[two], ends[two])
    counts = close & joined[one] & joined[two]
    counts &= far - offset[one] <= _MUCH_FURTHER * written
    where = np.searchsorted(led, rows.at[one])
    # What was written before the span is not of it, however far behind a group reads on.
    passed = np.minimum(far - np.maximum(offset[one], begin[where]), written)
    read = np.where(counts, np.maximum(passed, 0.0), 0.0)
    return np.bincount(where, read, len(led)).astype(np.float64)


_PARTITION_BITS, _SAMPLE_BITS = 20, 12  # Kafka's own limits are far below


def _places(rows: pa.Table, names: pa.Array) -> Ints:
    """A number for each topic and partition."""
    topic = pc.index_in(column(rows, "topic"), value_set=names).cast(pa.int64()).to_numpy()
    partition = column(rows, "partition").cast(pa.int64()).to_numpy()
    return np.asarray(topic << _PARTITION_BITS | partition)


def _moment(place: Ints, sample: Ints) -> Ints:
    return np.asarray(place << _SAMPLE_BITS | sample + 1)


def _with_members(sample: Sample) -> pa.Table:
    joined = pc.is_in(sample.commits["group_id"], value_set=pa.array(sample.joined, pa.string()))
    return sample.commits.append_column("joined", joined)


def _numbered(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows, with the number of their `sample`."""
    each = [pa.array(np.full(len(rows), number)) for number, rows in enumerate(tables)]
    return pa.concat_tables(
        rows.append_column("sample", number) for rows, number in zip(tables, each, strict=True)
    )
