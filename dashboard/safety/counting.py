"""Whether a broker's source went on counting from one sample to the next: what was not counted
ends no suspicion.

Whether counters began anew unseen, or a source stands still, is told by all that it tells; what
is measured of topics is `explained`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from dashboard.domain.metric_names import MOST_BETWEEN
from dashboard.safety.progress import Sample, Told


def stood_still(samples: Sequence[Sample]) -> list[frozenset[int]]:
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


def lives_of(samples: Sequence[Sample]) -> list[Mapping[int, int]]:
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


class Seen(NamedTuple):
    """One topic in one sample of a broker: its counter, 0 where there is none; which of the
    broker's lives it is of; and what its source told in all.
    """

    at: datetime
    sent: float
    life: int
    told: Told | None


class Counted(NamedTuple):
    """How much of a span was surely counted, in ms: all of it together, and without a break."""

    all_ms: int
    unbroken_ms: int


def counted(seen: Iterable[Seen]) -> Counted:
    """How long a broker surely counted the topic, of the time that its samples span."""
    told = [one for one in seen if math.isfinite(one.sent)]  # exporters may say NaN
    every = unbroken = longest = 0
    for before, after in pairwise(told):
        span = round((after.at - before.at).total_seconds() * 1000) * _counted(before, after)
        every, unbroken = every + span, unbroken + span if span else 0
        longest = max(longest, unbroken)
    return Counted(every, longest)


def _counted(before: Seen, after: Seen) -> bool:
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
