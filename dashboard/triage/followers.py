"""Who would hold the purge up, whether the broker in need is among them, and which mode to take."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dashboard.domain.model import TopicPartition
from dashboard.purge.forecast.forecast import Forecast
from dashboard.purge.forecast.stalls import holdups
from dashboard.purge.forecast.text import native_for_all
from dashboard.store.finding_rows import SlowFollower

WAIT_ALL, NATIVE, VERIFIED = "wait-all", "leader-only", "leader-only-verified"
# Without a forecast: a purge of few requests, each answered in milliseconds by its leader.
_UNKNOWN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Risk:
    """A broker that follows some of the partitions slowly.

    `catch_up_seconds`: the longest of them, None where no end is in sight.
    """

    broker_id: int
    partitions: int
    said: str
    catch_up_seconds: float | None


def risks(
    rows: Iterable[SlowFollower],
    keys: Collection[TopicPartition],
    forecast: Forecast | None,
) -> tuple[Risk, ...]:
    """Slow followers of `keys`: as the newest `slow_followers` know them, and as they look now.

    A broker that the live look finds behind has its words; by broker.
    """
    slow: dict[int, list[SlowFollower]] = defaultdict(list)
    for row in rows:
        if row.slow and TopicPartition(row.topic, row.partition) in keys:
            slow[row.broker_id].append(row)
    found = {broker_id: _known(broker_id, rows) for broker_id, rows in slow.items()}
    for h in reversed(holdups(forecast.stalls) if forecast else []):
        if h.broker_id is not None and not h.fetching:
            found[h.broker_id] = Risk(h.broker_id, h.partitions, h.said, h.seconds_to_go)
    return tuple(found[broker_id] for broker_id in sorted(found))


def mode(found: Collection[Risk], forecast: Forecast | None) -> str:
    """Waiting for all, unless somebody would make it stall."""
    if not found and not (forecast and forecast.timing_out):
        return WAIT_ALL
    return NATIVE if forecast and native_for_all(forecast) else VERIFIED


def purge_seconds(chosen_mode: str, forecast: Forecast | None) -> float:
    """How long until the log starts have moved at the latest.

    A leader mode does not wait for the partitions that would time out; the followers that keep up
    come with their next fetch all the same.
    """
    if forecast is None:
        return _UNKNOWN_SECONDS
    times = [w.high_seconds for w in forecast.waits if w.high_seconds is not None]
    if chosen_mode != WAIT_ALL:
        times = [
            w.high_seconds for w in forecast.waits if w.high_seconds is not None and not w.times_out
        ]
    return max([forecast.quick_seconds or 0.0, *times], default=0.0)


def follower_seconds(found: Iterable[Risk], broker_id: int) -> float | None:
    """How much later its bytes leave where the broker in need is slow itself; None: unknown."""
    mine = next((risk for risk in found if risk.broker_id == broker_id), None)
    return 0.0 if mine is None else mine.catch_up_seconds


def _known(broker_id: int, rows: list[SlowFollower]) -> Risk:
    causes = Counter(row.cause for row in rows if row.cause)
    why = causes.most_common(1)[0][0] if causes else "cause unknown"
    times = [row.catch_up_seconds for row in rows]
    known = [seconds for seconds in times if seconds is not None]
    lag = max((row.lag_records or 0 for row in rows), default=0)
    out = sum(row.in_sync is False for row in rows)
    said = f"Broker {broker_id} follows slowly ({why}): up to {lag} records behind"
    said += f", out of sync on {out}." if out else "."
    return Risk(broker_id, len(rows), said, max(known) if len(known) == len(times) else None)
