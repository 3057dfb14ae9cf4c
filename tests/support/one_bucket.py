"""Findings of a whole store as one bucket of it, in the test's own process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pyarrow as pa

from analytics.earlier import since
from analytics.metrics import causes, followers
from analytics.metrics import quality as completeness
from analytics.orphans import broker_facts, orphans, sightings
from analytics.orphans.broker_facts import Brokers
from analytics.readers import groups, holds
from analytics.replicas import curves, disks, points
from analytics.replicas import growth as rates
from analytics.replicas.trends import Carried, Trends, microseconds
from analytics.tables import Tables
from dashboard.estimate.curve_tables import ReplicaCurves
from dashboard.history.past_groups import deleted
from dashboard.safety.readers import Readers
from dashboard.settings.settings import Settings
from dashboard.store.clocks import seen_at, taken_by_right_clock
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

SHORT = ("brokers", "topics", "configs", "reassignments")


def growth(trends: Trends, log_dirs: pa.Table, taken_at: int) -> pa.Table:
    """The `growth` table of trends that a snapshot was added to, taken then (microseconds)."""
    return rates.growth(rates.sums(trends, taken_at), rates.of_disks(trends, log_dirs, taken_at))


def slow_followers(
    trends: Trends,
    replicas: pa.Table,
    drawn: ReplicaCurves,
    read: Mapping[str, pa.Table],
    *,
    taken_at: int,
    reading: float,
) -> pa.Table:
    """The `slow_followers` table with causes; `read`: SHORT tables of the snapshot; times as for
    `followers.lags`.
    """
    found = followers.slow_followers(
        trends, replicas, drawn, read["brokers"], taken_at=taken_at, reading=reading
    )
    return followers.with_causes(found, causes.units(found), causes.asked(read))


def followers_of(cluster: ClusterStore, snapshot: Manifest, topics: pa.Table) -> pa.Table:
    """The same from all kept snapshots of a store up to this one."""
    told, carried = points.told(cluster, snapshot.id), Carried(cluster, None)
    drawn = curves.fold(cluster, snapshot, None, told, topics, each=carried.add)
    read = {name: cluster.read("snapshots", snapshot.id, name) for name in SHORT}
    return slow_followers(
        carried.trends, told, drawn, read, taken_at=microseconds(snapshot),
        reading=carried.reading(snapshot.id),
    )  # fmt: skip


def quality(read: Mapping[str, pa.Table], incomplete: Sequence[str]) -> pa.Table:
    """The `quality` table of a snapshot's tables by name."""
    return completeness.quality(completeness.counts(read), read, incomplete)


def brokers(read: Mapping[str, pa.Table], segments: pa.Table) -> Brokers:
    """What brokers told, by a snapshot's tables by name and its segments."""
    return broker_facts.brokers(read, broker_facts.holdings(read["replicas"], segments))


def find_orphans(
    tables: Tables, snapshot: Manifest, base: Manifest | None, settings: Settings
) -> orphans.Found:
    """The orphans of a snapshot, going on from an analysis; suspects are found by Spark."""
    cluster = tables.cluster
    names = ("brokers", "log_dirs", "replicas", "configs")
    read = {name: cluster.read("snapshots", snapshot.id, name) for name in names}
    segments = cluster.read("snapshots", snapshot.id, "segments", broker_facts.SEGMENTS)
    listed = sightings.unassigned(cluster, since(cluster, base, snapshot))["snapshot_id"]
    return orphans.find(
        tables, snapshot, base, brokers(read, segments), settings=settings,
        unassigned=listed.to_pylist(),
    )  # fmt: skip


def stock(segments: pa.Table, found: Sequence[dict[str, Any]]) -> disks.Stock:
    """What segments and orphans put on each log dir."""
    return disks.stock(disks.stock_sums(segments, disks.places(found)), found)


def who_reads(
    cluster: ClusterStore,
    snapshot: Manifest,
    topics: pa.Table,
    *,
    streams: Collection[str],
    held: pa.Table,
    by_name: Collection[str] = (),
) -> Readers:
    """Who may read which topic of a snapshot; `held` are its offsets, before they are split."""
    sums = groups.held(*holds.split(held, topics))
    listed = cluster.read("snapshots", snapshot.id, "groups")
    offsets = groups.of_telling(cluster, snapshot, groups.telling(listed))
    readers = groups.remembered(cluster, snapshot, None, ())
    unread = set(groups.unread(cluster, snapshot)["group_id"].to_pylist())
    there, now = listed["group_id"].to_pylist(), seen_at(snapshot)
    return groups.who_reads(
        listed, topics, offsets=offsets, streams=streams, held=sums, met=readers, unread=unread,
        complete=not snapshot.details.get("groups_incomplete"), now=now,
        deleted=deleted(cluster, taken_by_right_clock(snapshot), there, snapshot.id),
        by_name=by_name,
    )  # fmt: skip
