"""The stalls of a forecast by broker and cause, each in one sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.core.words import behind, brokers, closing, plural
from dashboard.purge.forecast.stalls import Stall


@dataclass(frozen=True, slots=True)
class Holdup:
    """One broker (None: none leads) and one cause, over the partitions that it holds up.

    `lag_records` and `lag_seconds` are the largest, `closing_per_second` is the sum,
    `seconds_to_go` the longest; None where one of them is not known.
    """

    broker_id: int | None
    cause: str
    partitions: int
    error: str | None
    lag_records: int | None
    lag_seconds: float | None
    closing_per_second: float | None
    seconds_to_go: float | None
    in_sync: bool | None = None
    fetching: bool = False

    @property
    def said(self) -> str:
        """The cause in one sentence."""
        return _SAID[self.cause](self)

    @property
    def short(self) -> str:
        """The same for a sentence that goes on: `broker 2 is 41 s behind`."""
        if self.cause == "behind" and self.lag_records is not None and self.broker_id is not None:
            return f"{brokers([self.broker_id])} is {behind(self.lag_records, self.lag_seconds)}"
        return self.said.rstrip(".").partition(":")[0]


def holdups(stalls: Sequence[Stall]) -> list[Holdup]:
    """The stalls by broker and cause; first what never ends, most partitions first."""
    groups: dict[tuple[int | None, str, str | None, bool], list[Stall]] = defaultdict(list)
    for stall in stalls:
        groups[stall.broker_id, stall.cause, stall.error, stall.fetching].append(stall)
    found = [
        Holdup(
            broker_id,
            cause,
            partitions=len(alike),
            error=error,
            lag_records=_largest(s.lag_records for s in alike),
            lag_seconds=_largest(s.lag_seconds for s in alike),
            closing_per_second=_sum([s.closing_per_second for s in alike]),
            seconds_to_go=_largest(s.seconds_to_go for s in alike),
            in_sync=all(s.in_sync for s in alike) if cause == "behind" else None,
            fetching=fetching,
        )
        for (broker_id, cause, error, fetching), alike in groups.items()
    ]
    return sorted(found, key=lambda h: (h.fetching, -h.partitions, h.broker_id or 0, h.cause))


def _silent(h: Holdup) -> str:
    return (
        f"Broker {h.broker_id} does not answer: {plural(h.partitions, 'partition')} would wait for "
        "it until the request times out."
    )


def _leader_silent(h: Holdup) -> str:
    return (
        f"Broker {h.broker_id} does not answer and leads {plural(h.partitions, 'partition')}: "
        "nothing can be sent there in any mode."
    )


def _behind_said(h: Holdup) -> str:
    up_to = "up to " if h.partitions > 1 else ""
    end = "; it fetches, and a deletion reaches it with its next fetch" if h.fetching else ""
    return (
        f"Broker {h.broker_id} {'trails' if h.in_sync else 'is out of sync'} on "
        f"{plural(h.partitions, 'partition')}: {up_to}"
        f"{behind(h.lag_records or 0, h.lag_seconds)}"
        f"{closing(h.closing_per_second, h.seconds_to_go)}{end}."
    )


def _move(h: Holdup) -> str:
    far = ""
    if h.lag_records:
        up_to = "up to " if h.partitions > 1 else ""
        far = f"; it is {up_to}{behind(h.lag_records, None)}"
        far += closing(h.closing_per_second, h.seconds_to_go)
    return (
        f"Broker {h.broker_id} leads {plural(h.partitions, 'partition')} and moves the log to "
        f"another log dir: that waits until the move ends{far}."
    )


def _unreadable(h: Holdup) -> str:
    return (
        f"Broker {h.broker_id} gives no offsets for {plural(h.partitions, 'partition')} "
        f"({h.error or 'no reason given'}): how long it takes is not known."
    )


def _no_leader(h: Holdup) -> str:
    return f"{plural(h.partitions, 'partition')} without a leader: nothing can be sent there now."


_SAID = {
    "silent": _silent,
    "leader-silent": _leader_silent,
    "behind": _behind_said,
    "log-dir-move": _move,
    "unreadable": _unreadable,
    "no-leader": _no_leader,
}


def _largest(values: Iterable[Any]) -> Any:
    listed = list(values)
    return None if any(value is None for value in listed) else max(listed)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
