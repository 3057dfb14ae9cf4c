"""How old an analysis' findings are, whether they still tell of now, which kept snapshots it has in
its memory, those that it names, and which ones it had to do without.

Ids sort in the order of commits, so what it has is nearly always all up to its own. One may come to
stand before it later all the same: overtaken while it was written, put back by hand, or taken by an
older release while ids were of a time to come. It is unread until an analysis names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.core.clock import CLOCKS_AGREE, format_time
from dashboard.core.errors import StoreError
from dashboard.store import attempts
from dashboard.store.attempts import STALE_AFTER_INTERVALS
from dashboard.store.clocks import wrong_clock
from dashboard.store.snapshot_files import Manifest, time_of
from dashboard.store.snapshots import ClusterStore
from dashboard.topics.retention_fit import span


@dataclass(frozen=True, slots=True)
class Age:
    """When the analysed snapshot was taken, as of `now`; `unusable` as the function has it."""

    taken_at: datetime
    now: datetime
    unusable: str

    @property
    def said(self) -> str:
        """The beginning of a sentence: `By the snapshot of 38 s ago`."""
        age = self.now - self.taken_at
        if age < -CLOCKS_AGREE:
            return f"By a snapshot {_spanned(-age)} ahead of this host's clock"
        return f"By the snapshot of {_spanned(age)} ago"

    def to_json(self) -> dict[str, object]:
        """Keys of every answer that is told from findings; `unusable` null: they tell of now."""
        return {
            "taken_at": self.taken_at,
            "age_seconds": round((self.now - self.taken_at).total_seconds()),
            "unusable": self.unusable or None,
        }


def age_of(cluster: ClusterStore, analysis: Manifest, now: datetime, every: timedelta) -> Age:
    """That of an analysis; `every` as settings have it. Raises StoreError."""
    taken_at, clock = analysed_at(cluster, analysis), clock_of(cluster, analysis)
    return Age(taken_at, now, unusable(taken_at, clock, now, every, told_interval(cluster)))


def told_interval(cluster: ClusterStore) -> timedelta:
    """How often the watch that runs collects the cluster; 0 where settings alone say it: none does,
    or somebody collects by hand beside it, until its next attempt.
    """
    made = None
    with suppress(StoreError):  # its trace is damaged
        made = attempts.read(cluster)
    return made.every if made and made.every and made.left_at is None else timedelta(0)


def analysed_at(cluster: ClusterStore, analysis: Manifest) -> datetime:
    """As the analysed snapshot says; its id may follow one of a clock that ran ahead once."""
    snapshot_id = str(analysis.details.get("snapshot_id"))
    with suppress(StoreError):  # it was pruned: the analysis outlives it
        return cluster.manifest("snapshots", snapshot_id).taken_at
    return time_of(snapshot_id) or analysis.taken_at


def clock_of(cluster: ClusterStore, analysis: Manifest) -> str:
    """By what clock the analysed snapshot was taken, where it may have been at another time than it
    says; "": it was not, the controller tells no time, or the snapshot is gone.
    """
    with suppress(StoreError):  # it was pruned: the analysis outlives it
        return wrong_clock(cluster.manifest("snapshots", str(analysis.details.get("snapshot_id"))))
    return ""


def unusable(
    taken_at: datetime, clock: str, now: datetime, every: timedelta, told: timedelta
) -> str:
    """Why findings of a snapshot that was `taken_at` do not tell of now; "": they do.

    `clock` as `clock_of` has it; snapshots are taken once in `every` by the settings, in `told` as
    `told_interval` has it. The slower of both counts: an analysis may take longer than a watch is
    told to wait. A moment that is still to come is no sign of freshness: some clock was wrong, so
    that nobody knows how old they are.
    """
    every = max(every, told)
    named = f"the newest findings are of {format_time(taken_at)}"
    age = now - taken_at
    again = "set the clocks right, then collect and analyze again"
    if age < -CLOCKS_AGREE:
        return f"{named}, {-age.total_seconds():.0f} s ahead of this host's clock: {again}"
    if clock:
        return f"{named}, {clock}: {again}"
    if age > STALE_AFTER_INTERVALS * every:
        most = f"{STALE_AFTER_INTERVALS} x {every.total_seconds():g} s"
        watch = "or see whether `lowwater watch` runs"
        again = f"run `lowwater collect` and `lowwater analyze`, {watch}"
        return f"{named}, more than {most} ago: {again}"
    return ""


def _spanned(length: timedelta) -> str:
    return span(max(round(length.total_seconds()), 1) * 1000)


DETAIL = "folded"  # of an analysis' manifest: the snapshots that were kept, up to its own
# Who keeps every minute's snapshot for months would else carry megabytes in each manifest.
MOST = 1000


def told(kept: Iterable[str], snapshot_id: str) -> list[str]:
    """What the analysis of a snapshot names of the kept ones: the newest `MOST`."""
    return sorted(name for name in kept if name <= snapshot_id)[-MOST:]


def late(kept: Iterable[str], analysis: Manifest | None) -> list[str]:
    """The kept snapshots before an analysis' own that it has not in its memory, oldest first.

    Those that it could not read are named by itself (`holes`). One of an earlier version names
    none: it is taken to know all up to its own.
    """
    if analysis is None or DETAIL not in analysis.details:
        return []
    names = analysis.details[DETAIL]
    known = {*names, *analysis.details.get("left_out", {})}
    first = names[0] if len(names) >= MOST else ""  # of those before it is not told
    own = str(analysis.details.get("snapshot_id", ""))
    return sorted(name for name in kept if first < name < own and name not in known)


def holes(cluster: ClusterStore) -> dict[str, str]:
    """Snapshots and analyses that the newest analysis had to do without, and why, by id.

    Raises StoreError where that analysis itself cannot be read.
    """
    newest = newest_manifest(cluster)
    return {} if newest is None else holes_of(cluster, newest)


def holes_of(cluster: ClusterStore, analysis: Manifest) -> dict[str, str]:
    """The same of one analysis. What was removed since is missed by nobody. Raises StoreError."""
    told = analysis.details.get("left_out", {})
    kept = {*cluster.ids("snapshots"), *cluster.ids("findings")} if told else set()
    return {name: str(why) for name, why in sorted(told.items()) if name in kept}


def told_since(
    cluster: ClusterStore, analysis: Manifest | None, detail: str, until: str | None
) -> list[str]:
    """The kept snapshots of which `detail` of an analysis does not tell yet, oldest first: those
    after its own or unknown to it (`late`), without it all of them, but for those that it
    could not read itself.

    `until` is the last one that counts; None: the newest.
    """
    after, missed = "", frozenset[str]()
    if analysis is not None:
        missed = frozenset(analysis.details.get("left_out", {}))
        after = str(analysis.details["snapshot_id"]) if detail in analysis.details else ""
    ids = cluster.ids("snapshots")
    unread = {*late(ids, analysis)}
    kept = [name for name in ids if (name > after or name in unread) and name not in missed]
    return [name for name in kept if until is None or name <= until]


def newest_analysis(cluster: ClusterStore) -> str | None:
    """The analysis that LATEST names; where there is no such file, that of the newest snapshot.

    Raises StoreError.
    """
    named = cluster.latest("findings")
    if named is not None:
        return named
    of_snapshots = [
        (str(cluster.manifest("findings", i).details.get("snapshot_id", "")), i)
        for i in cluster.ids("findings")
    ]
    return max(of_snapshots, default=("", None))[1]


def newest_manifest(cluster: ClusterStore) -> Manifest | None:
    """That of the newest analysis, if there is one. Raises StoreError."""
    newest = newest_analysis(cluster)
    return None if newest is None else cluster.manifest("findings", newest)


def reasons(found: Mapping[str, str]) -> list[str]:
    """Why a list of groups is incomplete, in words, with the next step."""
    return [
        f"{name} cannot be read, and a group that it alone saw is not remembered: put it back and "
        f"run lowwater analyze --full, or remove its folder ({why})"
        for name, why in found.items()
    ]
