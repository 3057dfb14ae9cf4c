"""What of a topic's bytes out groups explain by the records that they committed past.

Arrays over kept snapshots and their broker metrics; the verdict on them is `unseen_readers`, which
loads no tables.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise, starmap
from typing import NamedTuple

import numpy as np

from dashboard.domain.metric_names import MOST_BETWEEN, increase
from dashboard.safety.progress import Passed, Sample, Told, explained, passed, rows_of
from dashboard.safety.unseen_readers import LOOK_BYTES_PER_PARTITION, Measure, TopicReading


def measures(samples: list[Sample], topics: Iterable[str]) -> list[Measure]:
    """What samples, oldest first, measure of each topic; nothing where no broker has two of them.

    Bytes out is the sum of counter differences per broker; a counter that fell began anew at 0
    (a restart, or the leadership that went and came). Explained is an estimate: the progress of
    every group's committed offset on a partition x the leader's bytes by offset there
    (`_record_bytes`). A group's first commit counts from the log start.

    Both are of the same span: where brokers answered in fewer samples than others, those alone
    measure them all, and all samples measure the others. A source that stood still is no answer.
    What Lowwater itself fetched, as an archive does, is taken off again (`_by_others`).
    """
    if not samples:
        return []
    hosts, silent, still = _hosts(samples), _silent(samples), _stood_still(samples)
    lives = _lives_of(samples)
    partitions = Counter(samples[-1].leaders["topic"].to_pylist())
    of_span: dict[tuple[int, ...], tuple[dict[str, int | None], dict[str, Passed]]] = {}
    found = []
    for topic in topics:
        of_topic = hosts.get(topic, frozenset())
        telling = [
            _telling(s, topic, mute) & of_topic - dead
            for s, mute, dead in zip(samples, silent, still, strict=True)
        ]
        for brokers, numbers in _spans(telling):
            span = [samples[n] for n in numbers]
            out = sum(_by_others(samples, lives, numbers, b, topic) for b in brokers)
            if numbers not in of_span:
                rows = rows_of(span)
                of_span[numbers] = explained(rows), passed(rows)
            estimated, read = of_span[numbers]
            reading = TopicReading(
                topic,
                round(out),
                estimated.get(topic, 0),
                _span_ms(span),
                partitions[topic] or 1,
                None,
            )
            left = _left(span, brokers, topic, read.get(topic), reading)
            of_life = [lives[n] for n in numbers]
            told = {b: _surely_counted(_seen(span, of_life, b, topic)) for b in brokers}
            found.append(_measure(reading, told, hosts[topic], span[-1].taken_at, left))
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
    """The brokers that count the topic, if only at 0; none while some of it is our own reading."""
    if topic in sample.going_on:
        return frozenset()
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
    told: Mapping[int, _Counted],
    hosts: frozenset[int],
    at: datetime,
    left_bytes: int | None,
) -> Measure:
    """The measure, with what kept it from being a whole one; `told` is by broker."""
    silent, lost = _named(hosts - told.keys()), _named(_lost(reading, told))
    if reading.explained_bytes is None:
        reading = replace(reading, why="the size of its records is unknown")
    elif silent:
        reading = replace(
            reading, why=f"broker {silent} has no two samples of its metrics within a day"
        )
    elif lost:
        reading = replace(reading, why=f"the counters of broker {lost} began anew between samples")
    least = _Counted(*map(min, zip(*told.values(), strict=True)))
    return Measure(reading, not silent, at, least.all_ms, least.unbroken_ms, left_bytes)


def _named(brokers: Iterable[int]) -> str:
    return ", ".join(str(broker) for broker in sorted(brokers))


def _lost(reading: TopicReading, told: Mapping[int, _Counted]) -> list[int]:
    """The brokers that did not count for longer than two samples that are close are apart."""
    most = MOST_BETWEEN.total_seconds() * 1000
    return [b for b, of in told.items() if (reading.window_ms or 0) - of.all_ms > most]


def _seen(
    span: Sequence[Sample], lives: Sequence[Mapping[int, int]], broker: int, topic: str
) -> Iterator[_Seen]:
    for sample, of_life in zip(span, lives, strict=True):
        if broker in sample.bytes_out:
            count = sample.bytes_out[broker].get(topic, 0.0)
            yield _Seen(sample.taken_at, count, of_life.get(broker, 0), sample.told.get(broker))


def _by_others(
    samples: Sequence[Sample],
    lives: Sequence[Mapping[int, int]],
    numbers: Sequence[int],
    broker: int,
    topic: str,
) -> float:
    """Bytes of the topic that left the broker over these samples, less those that went to us.

    Where its counter began anew they may have been lost with it: none are taken off then, nor ever
    more than left between two samples that count.
    """
    first, last = numbers[0], numbers[-1]
    ours = [s.ours.get(topic, {}).get(broker, 0) for s in samples[first : last + 1]]
    # A topic without a counter was not fetched since the broker's start: Kafka makes it then.
    seen = [
        (n, samples[n].bytes_out[broker].get(topic, 0.0))
        for n in numbers
        if broker in samples[n].bytes_out
    ]
    if not any(ours[1:]):
        return _increases(count for _, count in seen)
    told = [(n, count) for n, count in seen if math.isfinite(count)]  # exporters may say NaN
    left = 0.0
    for (one, before), (two, count) in pairwise(told):
        if count < before:
            left += count
            continue
        between = slice(one, two + 1)
        anew = _began_anew(samples[between], lives[between], broker, topic)
        own = 0 if anew else sum(ours[one + 1 - first : two + 1 - first])
        left += max(0.0, count - before - own)
    return left


def _began_anew(
    span: Sequence[Sample], lives: Sequence[Mapping[int, int]], broker: int, topic: str
) -> bool:
    """Whether a counter that is past what it was began at 0 meanwhile, by the process' start or by
    the samples between: they are left out of a measure while we read, and tell this all the same.
    """
    counts = [s.bytes_out.get(broker, {}).get(topic, math.nan) for s in span]
    told = [count for count in counts if math.isfinite(count)]
    fell = any(after < before for before, after in pairwise(told))
    return fell or len({of.get(broker, 0) for of in lives}) > 1


def _produced(span: Sequence[Sample], broker: int, topic: str) -> list[float]:
    # One that is missing from a scrape is not counted: what follows was produced who knows when.
    told = (s.bytes_in.get(broker, {}) for s in span)
    return [counts[topic] for counts in told if topic in counts]


def _increases(seen: Iterable[float]) -> float:
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
    made = [counts for broker in brokers if (counts := _produced(span, broker, topic))]
    written = sum(map(_increases, made)) if made else math.nan
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


# Whether a broker's source went on counting from one sample to the next: what was not counted ends
# no suspicion. That counters began anew unseen, or a source stands still, is told by all it tells.


def _stood_still(samples: Sequence[Sample]) -> list[frozenset[int]]:
    """Of each sample the brokers whose source tells what it told before, to the last number, though
    logs that the broker leads grew since.

    Whoever filled a file died, or a proxy gives its last copy: that is no answer of now. A broker
    that writes counts what was produced; one of which only bytes out are told may have sent none.
    """
    still: set[int] = set()
    found = []
    for steps in _steps(samples):
        for broker, before, told in steps:
            if told.sums != before.sums:
                still.discard(broker)
            elif told is not before and _grew(before.ends(), told.ends()):
                still.add(broker)
        found.append(frozenset(still & {broker for broker, *_ in steps}))
    return found


def _grew(before: int | None, after: int | None) -> bool:
    """What cannot be read any more ends no suspicion."""
    return before is None or after is None or after > before


def _lives_of(samples: Sequence[Sample]) -> list[Mapping[int, int]]:
    """Of each sample how often each broker was seen to begin anew before it: a restart sets all
    counters back to 0, also where that of a topic stood there already.
    """
    lives: dict[int, int] = {}
    found: list[Mapping[int, int]] = []
    for steps in _steps(samples):
        for broker, before, told in steps:
            lives[broker] = lives.get(broker, 0) + (_went_on(before, told) is False)
        found.append(dict(lives))
    return found


def _steps(samples: Iterable[Sample]) -> Iterator[list[tuple[int, Told, Told]]]:
    """Of each sample its brokers, what each told before (at first the same), and what it tells."""
    last: dict[int, Told] = {}
    for sample in samples:
        yield [(broker, last.get(broker, told), told) for broker, told in sample.told.items()]
        last.update(sample.told)


def _went_on(before: Told, after: Told) -> bool | None:
    """Whether counters over all topics went on; None where none of them can tell.

    They may have begun anew and passed what they were before: then the time of the process' start
    tells it. That it is the same is no proof, since it may be an exporter's beside the broker.
    """
    both = before.totals.keys() & after.totals.keys()
    if None not in (before.started, after.started) and before.started != after.started:
        return False
    if any(after.totals[name] < before.totals[name] for name in both):
        return False
    return True if any(before.totals[name] > 0 for name in both) else None


class _Seen(NamedTuple):
    """One topic in one sample of a broker: its counter, 0 where there is none; which of the
    broker's lives it is of; and what its source told in all.
    """

    at: datetime
    sent: float
    life: int
    told: Told | None


class _Counted(NamedTuple):
    """How much of a span was surely counted, in ms: all of it together, and without a break."""

    all_ms: int
    unbroken_ms: int


def _surely_counted(seen: Iterable[_Seen]) -> _Counted:
    """How long a broker surely counted the topic, of the time that its samples span."""
    told = [one for one in seen if math.isfinite(one.sent)]  # exporters may say NaN
    every = unbroken = longest = 0
    for before, after in pairwise(told):
        span = round((after.at - before.at).total_seconds() * 1000) * _all_counted(before, after)
        every, unbroken = every + span, unbroken + span if span else 0
        longest = max(longest, unbroken)
    return _Counted(every, longest)


def _all_counted(before: _Seen, after: _Seen) -> bool:
    """Whether all that left between two samples was counted.

    One that fell began anew, at 0, nobody knows when. Where they are far apart something must tell
    that none did: the topic's own counter, or those of all topics.
    """
    if after.sent < before.sent or after.life != before.life:
        return False
    if after.at - before.at <= MOST_BETWEEN or before.sent > 0:
        return True
    return (
        before.told is not None
        and after.told is not None
        and bool(_went_on(before.told, after.told))
    )
