"""What a policy would have done over the past week, by kept snapshots and the newest curves.

Nothing is asked of the cluster. Snapshots are sparser than a policy's interval: between two of
them a purge is counted at most once, at the later one, so that the backlog told for the policy is
the most there can have been, and its purges are the fewest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from dashboard.clock import format_time
from dashboard.columns import Ints
from dashboard.errors import StoreError
from dashboard.policies.matching import owner_of
from dashboard.policies.past import Moment, chosen, earlier, moments
from dashboard.policies.past_bytes import past_bytes
from dashboard.policies.past_guards import guarded_now
from dashboard.policies.past_memory import memory, unanalyzed
from dashboard.policies.past_rows import Rows, rows
from dashboard.policies.past_targets import Ends, keeps, owners, reach, wanted, windows
from dashboard.policies.simulated_notes import notes
from dashboard.policies.simulated_walk import Walk
from dashboard.policy import Policy
from dashboard.settings import TopicDeclaration
from dashboard.snapshot_times import times
from dashboard.snapshots import ClusterStore

WEEK = timedelta(days=7)
Declared = Callable[[Collection[str]], Mapping[str, TopicDeclaration]]
# So many partitions times snapshots are walked: 48 of a cluster with 100,000 partitions.
_MOST_CELLS = 5_000_000
_FEWEST, _MOST = 24, 336


@dataclass(frozen=True, slots=True)
class Simulation:
    """What would have been: bytes are of all replicas; a backlog is what lies below the target.

    `purges` counts runs, `partitions` those that were purged at least once. A point is (when,
    backlog with the policy just before it would have purged, backlog as it was).
    """

    from_: datetime
    to: datetime
    snapshots: int
    topics: int
    purges: int
    partitions: int
    bytes: int
    largest_backlog_bytes: int
    largest_backlog_without_bytes: int
    points: tuple[tuple[datetime, int, int], ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `policies check --json` prints it; times are RFC 3339."""
        return {
            "from": format_time(self.from_),
            "to": format_time(self.to),
            "snapshots": self.snapshots,
            "topics": self.topics,
            "purges": self.purges,
            "partitions": self.partitions,
            "bytes": self.bytes,
            "largest_backlog_bytes": self.largest_backlog_bytes,
            "largest_backlog_without_bytes": self.largest_backlog_without_bytes,
            "points": [
                {"at": format_time(at), "backlog_bytes": own, "backlog_without_bytes": without}
                for at, own, without in self.points
            ],
            "notes": list(self.notes),
        }


def week(
    store: ClusterStore,
    policy: Policy,
    now: datetime,
    declared: Declared,
    span: timedelta = WEEK,
) -> Simulation:
    """The policy as it is defined now, over the snapshots kept of the past `span`.

    `declared` gives the declarations of topics: a replay window holds in the past as it does now.
    Raises StoreError; snapshots that are damaged, or pruned meanwhile, are left out.
    """
    every = store.ids("snapshots")
    most = _affordable(store, every)
    taken = times(store, every, now)
    read = chosen(taken, now - span, now, most)
    topics = declared([name for name in _topics(store, every) if policy.matches(name)])
    longest = max((d.replay_window for d in topics.values()), default=timedelta(0))
    before_from = now - span - max(reach(policy.target), longest)
    before = chosen(taken, before_from, now - span, most)
    others = unanalyzed(store, every, read)
    found = rows(store, sorted({*before, *others, *read}), policy.matches)
    known = [snapshot for snapshot in read if snapshot in found.topic_of]
    if known and len(found):
        ends = Ends()
        for at, high_watermark, leader_epoch in earlier(store, before, found):
            ends.add(at, high_watermark, leader_epoch)
        owning = _owners(store, policy, known[-1], found)
        waive = policy.waive.keys() - (owning or {}).values()
        telling = moments(store, known, found, memory(store, found, now), others, waive=waive)
        walk = _walked(
            store, policy, known, found, ends,
            owning=owning, telling=telling, window_ms=windows(found, topics), now=now,
        )  # fmt: skip
        if walk.points:
            return _result(policy, found, walk)
    why = (
        f"No topic that policy {policy.name} is for is in the kept snapshots."
        if known and not len(found)
        else "No snapshot of this time is kept: nothing can be said yet."
    )
    return Simulation(now - span, now, len(known), 0, 0, 0, 0, 0, 0, (), (why,))


def _walked(
    store: ClusterStore,
    policy: Policy,
    snapshots: list[str],
    found: Rows,
    ends: Ends,
    *,
    owning: Mapping[str, str | None] | None,
    telling: Iterable[Moment],
    window_ms: Ints,
    now: datetime,
) -> Walk:
    keep = keeps(store, snapshots[-1], found, policy.target)
    guarded = guarded_now(store, policy, found, owning or {}, now)
    walk = Walk(policy, found, past_bytes(store, found), guarded)
    walk.unowned = sorted(name for name, owner in (owning or {}).items() if owner is None)
    for moment in telling:
        owner = owners(owning, found, moment.commits.code) if owning is not None else None
        ends.add(moment.at, moment.high_watermark, moment.leader_epoch)
        walk.step(moment, wanted(moment, keep, ends, owner, window_ms), owner)
    return walk


def _result(policy: Policy, found: Rows, walk: Walk) -> Simulation:
    topics = np.unique(found.topic[walk.met]).tolist()
    return Simulation(
        from_=walk.points[0][0],
        to=walk.points[-1][0],
        snapshots=len(walk.points),
        topics=len({found.names[at][0] for at in topics}),
        purges=walk.purges,
        partitions=int(walk.purged.sum()),
        bytes=int(walk.bytes),
        largest_backlog_bytes=max(point[1] for point in walk.points),
        largest_backlog_without_bytes=max(point[2] for point in walk.points),
        points=tuple(walk.points),
        notes=tuple(notes(policy, walk)),
    )


def _topics(store: ClusterStore, snapshots: list[str]) -> list[str]:
    """Names of the newest snapshot that can be read."""
    for snapshot in reversed(snapshots):
        with suppress(StoreError):
            table = store.read("snapshots", snapshot, "topics", ["topic"])
            return [str(name) for name in table["topic"].to_pylist()]
    return []


def _affordable(store: ClusterStore, snapshots: list[str]) -> int:
    """How many snapshots are read: fewer of a cluster with more partitions."""
    partitions = 1
    for snapshot in reversed(snapshots):
        with suppress(StoreError):
            partitions = max(1, store.manifest("snapshots", snapshot).tables.get("partitions", 1))
            break
    return min(max(_MOST_CELLS // partitions, _FEWEST), _MOST)


def _owners(
    store: ClusterStore, policy: Policy, snapshot: str, found: Rows
) -> Mapping[str, str | None] | None:
    """The owner of each topic by the groups of the newest snapshot; None where all groups count."""
    if policy.committed_by != "owner":
        return None
    groups = store.read("snapshots", snapshot, "groups", ["group_id"])["group_id"]
    known = frozenset(groups.to_pylist())
    return {name: owner_of(policy, name, known) for name, _ in found.names}
