"""Which clocks can be believed: the one by which a snapshot was taken, and this host's now."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from dashboard.core.clock import CLOCKS_AGREE, going_on
from dashboard.core.errors import ClusterError, StoreError
from dashboard.store.snapshot_files import Manifest, time_of
from dashboard.store.snapshots import ClusterStore


def clock_was_right(snapshot: Manifest) -> bool:
    """Whether the clock of the host that took it agreed with the cluster's controller then.

    Snapshots of controllers that tell no time, and of earlier versions, are believed; one that
    could not read it is not.
    """
    return not wrong_clock(snapshot)


def wrong_clock(snapshot: Manifest) -> str:
    """By what clock it was taken, where it may have been at another time than it says; "": it was
    not.

    By one that ran ahead, what it shows looks older than it is when it is seen last; by one behind,
    when it is seen first.
    """
    if (error := snapshot.details.get("clock_error")) is not None:
        return f"by a clock that could not be compared with the cluster's controller ({error})"
    ahead = float(snapshot.details.get("clock_ahead_seconds") or 0)
    if abs(ahead) <= CLOCKS_AGREE.total_seconds():
        return ""
    where = "ahead of" if ahead > 0 else "behind"
    return f"by a clock that was {abs(ahead):.0f} s {where} the cluster's controller"


def taken_by_right_clock(snapshot: Manifest) -> datetime | None:
    """When it was taken; None where nobody knows.

    An id that bears another time follows one of a clock that ran ahead. Which of the two was right
    the controller tells; where it tells no time, nobody does.
    """
    if wrong_clock(snapshot):
        return None
    in_step = f"{snapshot.taken_at:%Y%m%dT%H%M%S}" == snapshot.id[:15]
    proved = snapshot.details.get("clock_ahead_seconds") is not None
    return snapshot.taken_at if in_step or proved else None


def seen_at(snapshot: Manifest) -> datetime:
    """When what it shows was seen: its time, or its id's, where a clock has stepped back since.

    An id sorts behind every one that was committed before it. So of two snapshots the later one
    saw later, whatever clocks said: which offset of a group outlives which is decided by that.
    """
    by_id = time_of(snapshot.id)
    return snapshot.taken_at if by_id is None else max(snapshot.taken_at, by_id)


def newest_seen(cluster: ClusterStore) -> datetime:
    """`seen_at` of the newest snapshot, by its id alone where it cannot be read now; 1970 without
    one: what a later one shows was seen after that, whatever clocks say. Raises StoreError where
    snapshots cannot be listed.
    """
    for name in reversed(cluster.ids("snapshots")):
        try:
            return seen_at(cluster.manifest("snapshots", name))
        except StoreError:  # damaged, pruned meanwhile, or the store does not answer for a moment
            if (at := time_of(name)) is not None:
                return at
    return datetime.fromtimestamp(0, UTC)


# When snapshots were taken: ids tell, but those that follow one of a clock that ran ahead.


def times(cluster: ClusterStore, ids: Collection[str], now: datetime) -> dict[str, datetime]:
    """The time of each of these snapshots; a folder that bears none is left out.

    An id sorts behind all that were committed before it. So while one bears a time after `now`,
    those behind it tell that time and not their own, which stands in their manifests. One that
    cannot be read is of the time that its id tells.
    """
    found = {name: at for name in ids if (at := time_of(name)) is not None}
    if max(found.values(), default=now) > now:
        for name in found:
            with suppress(StoreError):  # damaged, or pruned meanwhile
                found[name] = cluster.manifest("snapshots", name).taken_at
    return found


# Whether this host's clock can be believed: the age of all that is judged is counted by it.


class Timed(Protocol):
    """A cluster whose controller's clock can be asked for; None: nobody tells it."""

    def controller_time(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why nobody knows how old anything is, in words; `passes`: a later look may tell."""

    why: str
    passes: bool = False


def ahead(live: Timed, now: datetime) -> timedelta | None:
    """By how much this host's clock is ahead of the controller's in whole seconds, negative: behind
    it; zero where they agree. None: nobody tells.

    `now` is this very moment. The answer's way is no disagreement: it may be slow. Raises
    ClusterError CLOCK_UNREAD.
    """
    return apart(live.controller_time, now)


def apart(told: Callable[[], datetime | None], now: datetime) -> timedelta | None:
    """The same of another clock, by what tells its time."""
    clock = going_on(now)
    at = told()
    if at is None:
        return None
    by = max(now - at, timedelta(0)) or min(clock() - at, timedelta(0))
    return timedelta(seconds=round(by.total_seconds())) if abs(by) > CLOCKS_AGREE else timedelta(0)


def in_words(by: timedelta, now: datetime, whose: str = "the cluster's controller") -> str:
    """How far this host's clock stands from the controller's, or whose it is, and what both say."""
    seconds = by.total_seconds()
    where = "ahead of" if seconds > 0 else "behind"
    return (
        f"this host's clock is {abs(seconds):.0f} s {where} {whose} "
        f"({now:%Y-%m-%d %H:%M:%S} UTC here, {now - by:%Y-%m-%d %H:%M:%S} there)"
    )


def problem(live: Timed, now: datetime) -> Wrong | None:
    """What is wrong with this host's clock, or with reading the cluster's; None: they agree.

    One that runs ahead takes records, and topics, for older than they are. By one that stands
    behind a memory of groups that is weeks old is fresh, and a plan never expires. Where no broker
    speaks of the controller's clock (with ZooKeeper, in some services) nobody can tell, and the
    host's is believed.
    """
    try:
        by = ahead(live, now)
    except ClusterError as error:
        return Wrong(f"{error.message}, so nobody knows whether this host's is right", passes=True)
    if not by:
        return None
    return Wrong(
        f"{in_words(by, now)}, so nobody knows how old records, groups and snapshots are; set this "
        "host's clock right (NTP), then plan again"
    )
