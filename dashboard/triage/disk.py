"""The log dir in need as it is now: room left, how fast it fills, and what keeps it from a purge.

A log dir that met an I/O error, a full disk's ENOSPC too, goes offline (KIP-112): DescribeLogDirs
answers KAFKA_STORAGE_ERROR (56) for it, the broker deletes nothing there any more, and only a
restart takes it back. A broker whose last log dir goes offline halts (Kafka's `LogManager`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NoReturn, Protocol

from dashboard.core.errors import UsageError
from dashboard.domain.model import LogDir, LogDirsAnswer, TopicPartition
from dashboard.purge.forecast.forecast import Forecast
from dashboard.purge.forecast.holdups import holdups
from dashboard.purge.forecast.text import native_for_all

OBSTACLES = OFFLINE, DOWN, SILENT = "LOG_DIR_OFFLINE", "BROKER_DOWN", "BROKER_SILENT"
_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"


class Cluster(Protocol):
    """The part of `dashboard.cluster.live.LiveCluster` that is asked here."""

    def alive_brokers(self) -> tuple[int, ...]: ...
    def log_dirs(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        brokers: Iterable[int] | None = None,
    ) -> LogDirsAnswer: ...


@dataclass(frozen=True, slots=True)
class Disk:
    """One log dir, read live. `error` is Kafka's name of what is wrong with it.

    `obstacle` says why no purge gives it room: OFFLINE, DOWN or SILENT. `replicas` are those in
    it now, None where the broker does not list them. `grows_by` are bytes per hour that its used
    space grows by, None without enough history. `offline` are the broker's other log dirs that are.
    """

    broker_id: int
    log_dir: str | None
    total_bytes: int | None = None
    usable_bytes: int | None = None
    error: str | None = None
    obstacle: str | None = None
    replicas: Mapping[TopicPartition, int] | None = None
    grows_by: int | None = None
    offline: tuple[str, ...] = field(default=())

    @property
    def used_share(self) -> float | None:
        """0..1; None where the broker does not tell total and usable bytes (KIP-827)."""
        if not self.total_bytes or self.usable_bytes is None:
            return None
        return 1 - self.usable_bytes / self.total_bytes

    @property
    def full_in(self) -> timedelta | None:
        """When nothing is left at its present pace; None where that is not known, or never."""
        if self.usable_bytes is None or not self.grows_by or self.grows_by < 0:
            return None
        return timedelta(hours=self.usable_bytes / self.grows_by)

    def written_in(self, time: timedelta) -> int | None:
        """Bytes that it fills by meanwhile: 0 where it shrinks, None where that is not known."""
        if self.grows_by is None:
            return None
        return max(0, round(self.grows_by * (time / timedelta(hours=1))))


def look(
    live: Cluster,
    broker_id: int,
    log_dir: str | None,
    *,
    known: Mapping[str, int],
    growth: Sequence[Mapping[str, Any]],
) -> Disk:
    """The log dir in need: the one named, else the fullest that is online.

    `known` are the broker's log dirs in the newest findings with the bytes measured there,
    `growth` the rows of that table. Raises UsageError BROKER_NOT_FOUND or LOG_DIR_NOT_FOUND.
    """
    if broker_id not in live.alive_brokers():
        if not known:
            raise UsageError(
                f"there is no broker {broker_id}, and the findings know none",
                "Correct --broker; lowwater findings disks lists brokers and log dirs.",
                code="BROKER_NOT_FOUND",
            )
        return Disk(broker_id, _named(known, log_dir, broker_id), obstacle=DOWN)
    answer = live.log_dirs(None, [broker_id])
    refused = answer.errors.get(broker_id)
    if refused:
        return _unlisted(broker_id, _named(known, log_dir, broker_id), refused)
    found = _chosen(answer.log_dirs, log_dir, broker_id)
    return Disk(
        broker_id,
        found.log_dir,
        found.total_bytes,
        found.usable_bytes,
        found.error,
        _obstacle(found.error),
        {
            TopicPartition(r.topic, r.partition): r.size_bytes
            for r in answer.replicas
            if r.log_dir == found.log_dir and not r.is_future
        },
        _grows_by(growth, broker_id, found.log_dir),
        tuple(
            d.log_dir
            for d in answer.log_dirs
            if d.error == _STORAGE_ERROR and d.log_dir != found.log_dir
        ),
    )


def _obstacle(error: str | None) -> str | None:
    """Offline, or a log dir of which the broker tells nothing: one that vanished goes that way
    first (UNKNOWN_SERVER_ERROR), until its next write fails.
    """
    return None if error is None else OFFLINE if error == _STORAGE_ERROR else SILENT


def _unlisted(broker_id: int, log_dir: str, refused: str) -> Disk:
    """A broker that refuses DescribeLogDirs can be purged; one that does not answer cannot."""
    silent = not refused.endswith("_AUTHORIZATION_FAILED") and refused != "UNSUPPORTED_VERSION"
    return Disk(broker_id, log_dir, error=refused, obstacle=SILENT if silent else None)


def _chosen(dirs: Sequence[LogDir], named: str | None, broker_id: int) -> LogDir:
    if named is not None:
        found = next((d for d in dirs if d.log_dir == named), None)
        if found is None:
            _refuse(named, [d.log_dir for d in dirs], broker_id)
        return found
    online = [d for d in dirs if not d.error]
    return max(online or dirs, key=lambda d: (_share(d), d.log_dir))


def _share(found: LogDir) -> float:
    if not found.total_bytes or found.usable_bytes is None:
        return -1.0
    return 1 - found.usable_bytes / found.total_bytes


def _named(known: Mapping[str, int], named: str | None, broker_id: int) -> str:
    if named is not None and known and named not in known:
        _refuse(named, list(known), broker_id)
    return named or max(known, key=lambda name: (known[name], name), default="unknown log dir")


def _refuse(named: str, known: Sequence[str], broker_id: int) -> NoReturn:
    raise UsageError(
        f"broker {broker_id} has no log dir {named}",
        f"It has: {', '.join(sorted(known))}.",
        code="LOG_DIR_NOT_FOUND",
    )


def _grows_by(growth: Sequence[Mapping[str, Any]], broker_id: int, log_dir: str) -> int | None:
    """What the disk says of all on it, else what its replicas' bytes in and out say."""
    for row in growth:
        # Rows with a topic are of that topic alone there.
        if (row["topic"], row["broker_id"], row["log_dir"]) == (None, broker_id, log_dir):
            used, replicas = row["used_bytes_per_hour"], row["growth_per_hour"]
            found: int | None = used if used is not None else replicas
            return found
    return None


# Who would hold the purge up, whether the broker in need is among them, and which mode to take.

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
    rows: Iterable[Mapping[str, Any]],
    keys: Collection[TopicPartition],
    forecast: Forecast | None,
) -> tuple[Risk, ...]:
    """Slow followers of `keys`: as the newest `slow_followers` know them, and as they look now.

    A broker that the live look finds behind has its words; by broker.
    """
    slow: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["slow"] and TopicPartition(row["topic"], row["partition"]) in keys:
            slow[row["broker_id"]].append(row)
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


def _known(broker_id: int, rows: list[Mapping[str, Any]]) -> Risk:
    causes = Counter(row["cause"] for row in rows if row["cause"])
    why = causes.most_common(1)[0][0] if causes else "cause unknown"
    times = [row["catch_up_seconds"] for row in rows]
    known = [seconds for seconds in times if seconds is not None]
    lag = max((row["lag_records"] or 0 for row in rows), default=0)
    out = sum(row["in_sync"] is False for row in rows)
    said = f"Broker {broker_id} follows slowly ({why}): up to {lag} records behind"
    said += f", out of sync on {out}." if out else "."
    return Risk(broker_id, len(rows), said, max(known) if len(known) == len(times) else None)
