"""When the bytes have left the disk at the latest, and which setting would make that sooner.

A purge moves log starts. A broker deletes whole segments below its own log start at its next
retention check (`LogManager.cleanupLogs`, every `log.retention.check.interval.ms`), and their files
`file.delete.delay.ms` later (`LocalLog.deleteSegmentFiles`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from dashboard.core.words import duration
from dashboard.domain.model import ConfigEntry

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
