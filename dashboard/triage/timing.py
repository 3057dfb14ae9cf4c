"""When the bytes have left the disk at the latest, and which setting would make that sooner; who
would hold the purge up, whether the broker in need is among them, and which mode to take.

A purge moves log starts. A broker deletes whole segments below its own log start at its next
retention check (`LogManager.cleanupLogs`, every `log.retention.check.interval.ms`), and their files
`file.delete.delay.ms` later (`LocalLog.deleteSegmentFiles`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from dashboard.core.words import duration
from dashboard.domain.model import MODES, ConfigEntry, TopicPartition
from dashboard.purge.forecast.forecast import Forecast
from dashboard.purge.forecast.stalls import holdups
from dashboard.purge.forecast.text import native_for_all
from dashboard.store.finding_rows import SlowFollower

CHECK, DELAY = "log.retention.check.interval.ms", "file.delete.delay.ms"
_DEFAULT_MS = {CHECK: 300_000, DELAY: 60_000}


@dataclass(frozen=True, slots=True)
class Timing:
    """The worst case in seconds, part by part.

    `purge_seconds` until the leaders have moved their log starts and this broker has followed,
    `follower_seconds` until this broker has caught up where it is slow (None: no end in sight).
    `slowest` are the topics whose files are deleted last; `assumed` are settings that could not be
    read, with Kafka's defaults in their place.
    """

    purge_seconds: float
    follower_seconds: float | None
    check_seconds: float
    delay_seconds: float
    slowest: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    @property
    def worst_seconds(self) -> float | None:
        if self.follower_seconds is None:
            return None
        return self.purge_seconds + self.follower_seconds + self.check_seconds + self.delay_seconds

    def within(self, time: timedelta) -> bool:
        """Whether all bytes have surely left by then."""
        return self.worst_seconds is not None and self.worst_seconds <= time.total_seconds()


def timing(
    entries: Iterable[ConfigEntry],
    broker_id: int,
    topics: Iterable[str],
    *,
    purge_seconds: float,
    follower_seconds: float | None,
) -> Timing:
    """The worst case for these topics' segments on this broker, by its own settings."""
    values = {(e.scope, e.name, e.key): int(e.value) for e in entries if e.value and _timed(e)}
    check = values.get(("broker", str(broker_id), CHECK))
    delays = {topic: values.get(("topic", topic, DELAY)) for topic in topics}
    known = [found for found in delays.values() if found is not None]
    delay = max([*known, *([_DEFAULT_MS[DELAY]] if len(known) < len(delays) else [])], default=0)
    return Timing(
        purge_seconds,
        follower_seconds,
        (_DEFAULT_MS[CHECK] if check is None else check) / 1000,
        delay / 1000,
        _slowest(delays, delay),
        tuple(k for k, gone in ((CHECK, check is None), (DELAY, len(known) < len(delays))) if gone),
    )


def helps(found: Timing, time: timedelta) -> list[str]:
    """What makes it sooner, where the worst case exceeds the time; the cheapest first."""
    if found.within(time) or found.worst_seconds is None:
        return []
    said = []
    over = found.worst_seconds - time.total_seconds()
    if found.delay_seconds >= 1:
        enough = "" if found.delay_seconds > over else ", not enough by itself"
        said.append(
            f"{DELAY} can be changed at run time, topic by topic: with 1000 for "
            f"{_listed(found.slowest)} up to {duration(found.delay_seconds - 1)} less{enough} "
            "(kafka-configs --alter --entity-type topics --add-config; set it back afterwards)."
        )
    said.append(
        f"{CHECK} ({duration(found.check_seconds)}) is read-only while a broker runs: a smaller "
        "one takes a restart of the broker, so it helps the next night and not this one."
    )
    said.append(
        "Deleting a whole topic does not wait for that check, only for the file delete delay; "
        "everything in it is lost."
    )
    return said


def _timed(entry: ConfigEntry) -> bool:
    return entry.key in _DEFAULT_MS


def _slowest(delays: Mapping[str, int | None], delay: int) -> tuple[str, ...]:
    default = _DEFAULT_MS[DELAY]
    return tuple(
        sorted(t for t, found in delays.items() if (default if found is None else found) == delay)
    )


def _listed(topics: tuple[str, ...]) -> str:
    return ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if len(topics) > 3 else "")


WAIT_ALL, NATIVE, VERIFIED = MODES
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
    """Slow followers of `keys`, by broker: as they look now. Where the cluster does not say, as
    `rows` of the newest findings know them: who was slow then may have caught up since.
    """
    if forecast is not None:
        found = {
            h.broker_id: Risk(h.broker_id, h.partitions, h.said, h.seconds_to_go)
            for h in reversed(holdups(forecast.stalls))
            if h.broker_id is not None and not h.fetching
        }
        return tuple(found[broker_id] for broker_id in sorted(found))
    slow: dict[int, list[SlowFollower]] = defaultdict(list)
    for row in rows:
        if row.slow and TopicPartition(row.topic, row.partition) in keys:
            slow[row.broker_id].append(row)
    return tuple(_known(broker_id, slow[broker_id]) for broker_id in sorted(slow))


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
