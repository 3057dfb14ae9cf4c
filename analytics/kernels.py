"""What a task does with one bucket: Arrow tables in, findings of its partitions and sums out.

Three steps, as each needs what all buckets told in the one before: who holds offsets anywhere
(`remembered`), then everything that hangs on a partition (`told`), and why followers are slow
(`caused`). Two more where the last day is measured anew: what brokers told in all (`scraped`), and
what topics' readers are told by (`sampled`). Two tell what a policy would have done (`sighted`,
`passed`). Pure but for what they read of their bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from analytics import week
from analytics.bucket_view import BucketView
from analytics.earlier import since
from analytics.metrics import causes, counters, followers, quality, scrapes, traffic, unseen
from analytics.metrics.scrapes import Scrapes, read_times
from analytics.metrics.scrapes import summed as summed_times
from analytics.orphans import broker_facts, sightings
from analytics.readers import groups, holds, last_writes, partitions, reader_lags, topics
from analytics.replicas import curves, disks, growth, points, trends
from analytics.replicas.trends import Trends, microseconds
from dashboard.core.arrow import column, distinct
from dashboard.estimate.curve_tables import ReplicaCurves, to_table
from dashboard.history.week import walk
from dashboard.history.week.walk import Asked
from dashboard.safety.committed_offsets import by_offset
from dashboard.safety.committed_offsets import summed as summed_offsets
from dashboard.safety.readers import Readers
from dashboard.safety.standing import Standing
from dashboard.safety.standing import standing as stand
from dashboard.store.snapshot_files import Manifest


@dataclass(frozen=True)
class Work:
    """What every bucket needs of one analysis: short tables, sent to each task.

    `base`: the analysis to go on from; `before`: without one, those to remember, as
    `earlier.going_on` has both. `topics`: `topics.with_new`; `read`: the snapshot's short tables by
    name; `telling`: groups whose offsets tell what they may read; `kept_for`: how long snapshots
    are.
    """

    snapshot: Manifest
    base: Manifest | None
    before: tuple[Manifest, ...]
    topics: pa.Table
    read: Mapping[str, pa.Table]
    telling: groups.Telling
    kept_for: timedelta


@dataclass(frozen=True)
class Judged:
    """What `told` needs of all buckets: who reads what, by members and by offsets (`by_offset`),
    reasons why a group may be missing, the folders of orphans, how many seconds lie between the
    first and the last log end that each snapshot read, and which counters brokers told.
    """

    who: Readers
    by_offset: pa.Table
    incomplete: tuple[str, ...]
    orphans: frozenset[disks.Place]
    reading: Mapping[str, float]
    scrapes: Scrapes


@dataclass(frozen=True)
class Told:
    """What one bucket gives: its rows of long findings, and sums by a name of SUMMED."""

    tables: Mapping[str, pa.Table]
    sums: Mapping[str, pa.Table]


def remembered(view: BucketView, work: Work) -> Told:
    """Where every group got to, and which groups and topics these are; how much brokers hold."""
    snapshot = work.snapshot
    offsets = holds.fold(
        view, snapshot, work.topics, work.base, work.before, kept_for=work.kept_for
    )
    held, former = holds.split(offsets, work.topics)
    sizes = view.read("snapshots", snapshot.id, "replicas", ["broker_id", "size_bytes"])
    segments = view.read("snapshots", snapshot.id, "segments", broker_facts.SEGMENTS)
    ends = view.read("snapshots", snapshot.id, "partitions", _ENDS)
    commits = groups.commits(offsets, work.topics, snapshot)
    new = since(view, work.base, snapshot)
    counted = counters.new(view, work.base, snapshot)
    sums = {
        "held": groups.held(held, former),
        "telling": groups.of_telling(view, snapshot, work.telling),
        "unread": groups.unread(view, snapshot),
        "holdings": broker_facts.holdings(sizes, segments),
        "by_offset": by_offset(ends, commits, work.topics),
        "read_times": read_times(view, new),
        "unassigned": sightings.unassigned(view, new),
        "scrapes": scrapes.told(view, list(dict.fromkeys([*counted, snapshot.id]))),
        "scraped_before": scrapes.before(counters.carried(view, work.base, scrapes.BEFORE)),
    }
    return Told({"holds": held, "former_readers": former}, sums)


def scraped(view: BucketView, ids: Sequence[str]) -> Told:
    """What brokers told in all in these snapshots."""
    return Told({}, unseen.broker_sums(view, ids))


def sampled(view: BucketView, ids: Sequence[str], topics: pa.Table, snapshot: Manifest) -> Told:
    """What these snapshots tell of the topics that have a partition in this bucket."""
    here = view.read("snapshots", snapshot.id, "partitions", ["topic_no"])["topic_no"]
    named = topics.filter(pc.is_in(topics["topic_no"], value_set=here.unique()))
    return Told({}, unseen.rows(view, ids, named["topic"].to_pylist()))


def sighted(view: BucketView, asked: Asked) -> Told:
    """When each group was seen on the topics of a policy."""
    return Told({}, {"sights": walk.seen(view, asked)})


def passed(view: BucketView, asked: Asked, sights: pa.Table) -> Told:
    """What each moment of a week tells of a policy's partitions; `sights`: those of all buckets."""
    return Told({}, {"week": week.packed(view, asked, sights)})


# How the sums of several buckets become one, by name.
SUMMED: Mapping[str, Callable[[pa.Table], pa.Table]] = {
    "held": groups.summed, "telling": distinct, "unread": distinct, "holdings": broker_facts.summed,
    "by_offset": summed_offsets, "read_times": summed_times, "unassigned": distinct,
    "scrapes": distinct, "scraped_before": distinct, "disks": disks.summed,
    "stock": disks.stock_summed, "quality": quality.summed, "blockers": partitions.summed,
    "growth": growth.summed, "log_dirs": distinct, "units": causes.summed,
    "fetched": traffic.all_fetched, "slow": distinct, "last_writes": last_writes.summed,
    "reader_lags": reader_lags.summed, "wanted": topics.wanted_summed,
    **unseen.SUMMED, **week.SUMMED,
}  # fmt: skip


def told(view: BucketView, work: Work, judged: Judged) -> Told:
    """Curves and trends, what a purge would free, how far followers are behind, and what is carried
    on of writes and readers.
    """
    read = {n: view.read("snapshots", work.snapshot.id, n, c) for n, c in _COLUMNS.items()}
    drawn = _drawn(view, work, judged)
    purge = _purged(view, work, judged, read, drawn)
    metrics = counters.metrics(view, work.snapshot.id)
    counted = counters.fold(view, work.snapshot, work.base, judged.scrapes, metrics)
    slow = _followers(work, judged, drawn, metrics)
    at = microseconds(work.snapshot)
    names = column(view.read("snapshots", work.snapshot.id, "topics", ["topic"]), "topic")
    rates = traffic.traffic(counted, metrics, names, at)
    sums = {
        "disks": disks.sums(read["replicas"], purge.told_apart),
        "stock": disks.stock_sums(read["segments"], judged.orphans),
        "quality": quality.counts(read),
        "blockers": partitions.sums(view.made("holds"), purge.partitions),
        "growth": growth.sums(drawn.trends, at),
        "units": causes.units(slow),
        "fetched": traffic.fetched(rates),
        "slow": pa.table({"bucket": [view.bucket], "slow": [pc.sum(slow["slow"]).as_py() or 0]}),
    }
    if view.bucket == 0:
        sums["log_dirs"] = growth.of_disks(drawn.trends, work.read["log_dirs"], at)
    tables = {
        "reclaimable": pa.concat_tables(purge.by_target),
        "curves": to_table(drawn.curves),
        "trends": trends.to_table(drawn.trends),
        "slow_followers": slow,
        "counters": counters.to_table(counted),
        "traffic": rates,
    }
    used = _used(view, work, purge)
    return Told({**tables, **used.tables}, {**sums, **used.sums})


def _used(view: BucketView, work: Work, purge: _Purged) -> Told:
    """When partitions were written to, how far their declared readers were behind, and who may
    want their records.
    """
    snapshot, at = work.snapshot, microseconds(work.snapshot)
    writes = last_writes.fold(view, snapshot, work.base, work.before)
    chosen = reader_lags.judged(work.topics)
    lags = reader_lags.fold(view, snapshot, work.base, work.before, chosen)
    sums = {
        "last_writes": last_writes.sums(writes, purge.partitions, at),
        "reader_lags": reader_lags.sums(lags, purge.of_whole_logs, at),
        "wanted": topics.wanted_sums(purge.by_target[1], purge.partitions),
    }
    return Told({"last_writes": writes, "reader_lags": lags}, sums)


@dataclass(frozen=True)
class _Drawn:
    """`points.told` of the snapshot, the curves and trends of its replicas, and how many seconds
    lie between the first and the last log end that it read.
    """

    replicas: pa.Table
    curves: ReplicaCurves
    trends: Trends
    reading: float


def _drawn(view: BucketView, work: Work, judged: Judged) -> _Drawn:
    replicas = points.told(view, work.snapshot.id)
    moved = trends.Carried(view, work.base, with_disks=view.bucket == 0, reading=judged.reading)
    drawn = curves.fold(view, work.snapshot, work.base, replicas, work.topics, each=moved.add)
    return _Drawn(replicas, drawn, moved.trends, moved.reading(work.snapshot.id))


@dataclass(frozen=True)
class _Purged:
    """`partitions.described` partitions, the `reclaimable` rows by target (the committed one
    first), those up to the end of each log, which no replay window keeps from being asked who
    may read it, and `disks.told_apart` of replicas.
    """

    partitions: pa.Table
    by_target: tuple[pa.Table, ...]
    of_whole_logs: pa.Table
    told_apart: pa.Table


def _purged(
    view: BucketView, work: Work, judged: Judged, read: Mapping[str, pa.Table], drawn: _Drawn
) -> _Purged:
    rows = partitions.of_topics(read["partitions"], work.topics)
    standing = _standing(view, work, judged, rows)
    starts = partitions.window_starts(view, work.snapshot, work.topics)
    found = partitions.partitions(
        rows, read["replicas"], topics=work.topics, groups=standing, windows=starts
    )
    measured = partitions.measurable(points.measured(drawn.replicas), work.topics)
    found, measured = curves.with_bytes(found, measured, drawn.curves)
    known = partitions.described(found, work.topics, work.read["reassignments"])
    errors = groups.offset_errors(view, work.snapshot, read["group_offsets"]["error"], rows)

    def reclaimable(described: pa.Table, target: str, prefix: str) -> pa.Table:
        return partitions.reclaimable(
            described, target, prefix, groups=standing, incomplete=judged.incomplete,
            offset_errors=errors,
        )  # fmt: skip

    committed = reclaimable(known, "committed", "committed")
    whole = end = reclaimable(known, "high-watermark", "end")
    unread = known["high_watermark"].is_null()
    to_end = pc.or_kleene(unread, pc.equal(known["end_target"], known["high_watermark"]))
    asked = pc.is_in(known["topic"], value_set=reader_lags.judged(work.topics))
    if pc.any(pc.and_not(asked, pc.fill_null(to_end, False))).as_py():
        whole = reclaimable(partitions.to_their_ends(known), "high-watermark", "end")
    return _Purged(known, (committed, end), whole, disks.told_apart(measured, committed))


def _followers(work: Work, judged: Judged, drawn: _Drawn, metrics: pa.Table) -> pa.Table:
    found = followers.slow_followers(
        drawn.trends,
        drawn.replicas,
        drawn.curves,
        work.read["brokers"],
        taken_at=microseconds(work.snapshot),
        reading=drawn.reading,
    )
    telling = judged.scrapes.telling(work.snapshot.id, "fetcher_lag")
    lags = traffic.fetcher_lags(found, metrics, telling)
    return found.set_column(found.column_names.index("fetcher_lag"), "fetcher_lag", lags)


def caused(view: BucketView, units: pa.Table, read: Mapping[str, pa.Table]) -> Told:
    """Slow followers with their causes, by what stands out among the `units` of the cluster, and
    what was `causes.asked` for.
    """
    slow = view.made("slow_followers").drop_columns(["cause", "reason"])
    return Told({"slow_followers": followers.with_causes(slow, units, read)}, {})


def _standing(view: BucketView, work: Work, judged: Judged, rows: pa.Table) -> Standing:
    former = holds.with_ends(view.made("former_readers"), view, work.snapshot, work.topics)
    offsets = pa.concat_tables([view.made("holds").select(former.column_names), former])
    commits = groups.commits(offsets, work.topics, work.snapshot)
    return stand(rows, commits, work.topics, judged.who, elsewhere=judged.by_offset)


_ENDS = ["topic_no", "partition", "high_watermark"]
# Of the long tables what is summed, counted or joined beside curves and trends.
_COLUMNS = {
    "partitions": [*partitions.COLUMNS, "error"],
    "replicas": [*partitions.MOVES, "size_bytes", "log_end_offset"],
    "group_offsets": ["error"],
    "segments": broker_facts.SEGMENTS,
}
