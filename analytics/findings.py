"""All findings of one snapshot: three steps of tasks, and what the driver makes of their sums."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from analytics import advice, earlier, kernels, tasks
from analytics.bucket_view import Place
from analytics.kernels import Judged, Work
from analytics.metrics import causes, quality, unseen
from analytics.metrics.scrapes import Scrapes, seconds
from analytics.orphans import broker_facts, orphans
from analytics.orphans.suspects import scans
from analytics.readers import groups, partitions, topics
from analytics.readers.holds import oldest_kept
from analytics.replicas import disks, growth
from analytics.tables import Tables, stamped
from dashboard.core.clock import microseconds
from dashboard.history import findings_age, known_since, readings
from dashboard.history.findings_age import reasons
from dashboard.history.past_groups import Met, a_week_past, deleted
from dashboard.safety.readers import Readers
from dashboard.settings.settings import Settings
from dashboard.store.clocks import seen_at, taken_by_right_clock
from dashboard.store.snapshot_files import Manifest, Part, Writer
from dashboard.store.snapshots import ClusterStore


@dataclass(frozen=True, slots=True)
class Findings:
    """Short tables by name; the files of the long ones, a file for each bucket; the Kafka Streams
    applications that are known, as `streams` has them, groups that were met without their offsets,
    as `met` has them, the topics that are missed, as `absent` has them, what the memory of groups
    began with, and the kept snapshots that are in it.
    """

    tables: dict[str, pa.Table]
    parts: Mapping[str, Sequence[Part]]
    streams: dict[str, str]
    met: Met
    absent: dict[str, str]
    known_since: str | None
    folded: Sequence[str]


def compute(
    spark: SparkSession,
    cluster: earlier.OnDriver,
    writer: Writer,
    snapshot: Manifest,
    settings: Settings,
    *,
    base: Manifest | None,
    before: Sequence[Manifest],
    left_out: Mapping[str, str],
) -> Findings:
    """All findings of one snapshot; the long ones as files in the writer's folder.

    `base`: the analysis to go on from; `before`: without one, those to remember, as
    `earlier.going_on` has both. `left_out` are earlier snapshots and analyses that could not
    be read, and why: what they alone knew of groups is missing.
    """
    read = {
        name: cluster.read("snapshots", snapshot.id, name, columns, only=_ONLY.get(name))
        for name, columns in _COLUMNS.items()
    }
    work = _work(cluster, snapshot, settings, read, base=base, before=before)
    newest = base or (before[-1] if before else None)
    place = Place.of(cluster, writer)
    done = tasks.run(spark, partial(kernels.remembered, work=work), place, snapshot)
    alone = _orphans(Tables(spark, cluster), work, read, done.sums, settings)
    applications = topics.streams_remembered(cluster, snapshot, base, before, done.sums["held"])
    readers = groups.without_offset(
        groups.remembered(cluster, snapshot, base, before),
        done.sums["held"],
        work.topics,
        microseconds(oldest_kept(cluster, snapshot).as_py()),
        a_week_past(cluster, taken_by_right_clock(snapshot), snapshot.id),
    )
    incomplete = (*snapshot.details.get("groups_incomplete", ()), *reasons(left_out))
    listed = {*read["groups"]["group_id"].to_pylist()}
    gone = deleted(cluster, taken_by_right_clock(snapshot), listed, snapshot.id)
    by_name = settings.purge.by_name(listed)
    who = _who_reads(work, read, done.sums, applications, readers, gone=gone, by_name=by_name)
    judged = Judged(
        who,
        done.sums["by_offset"],
        incomplete,
        disks.places(alone.rows),
        seconds(done.sums["read_times"]),
        Scrapes.of(done.sums["scrapes"], done.sums["scraped_before"]),
    )
    place = place.with_made(done.files())
    kernel = partial(kernels.told, work=work, judged=judged)
    done = done.then(tasks.run(spark, kernel, place, snapshot))
    short = _short(snapshot, read, done.sums, alone)
    short["quality"] = _quality(snapshot, read, done.sums, incomplete, left_out)
    short |= _used(work, done.sums, who, settings, incomplete=incomplete, rates=short["growth"])
    short[unseen.TABLE] = _unseen(spark, cluster, place, work, newest)
    return Findings(
        {table: stamped(table, rows, snapshot) for table, rows in short.items()},
        _caused(spark, read, snapshot, place, done).files(),
        applications,
        readers,
        groups.carried(done.sums["held"], work.topics, newest, snapshot),
        known_since.of_analysis(cluster, [base] if base else before, anew=base is None),
        findings_age.told(cluster.ids("snapshots"), snapshot.id),
    )


def _orphans(
    tables: Tables,
    work: Work,
    read: Mapping[str, pa.Table],
    sums: Mapping[str, pa.Table],
    settings: Settings,
) -> orphans.Found:
    return orphans.find(
        tables,
        work.snapshot,
        work.base,
        broker_facts.brokers(read, sums["holdings"]),
        settings=settings,
        unassigned=sums["unassigned"]["snapshot_id"].unique().to_pylist(),
    )


def _who_reads(
    work: Work,
    read: Mapping[str, pa.Table],
    sums: Mapping[str, pa.Table],
    applications: Mapping[str, str],
    readers: Met,
    *,
    gone: Collection[str],
    by_name: Collection[str],
) -> Readers:
    return groups.who_reads(
        read["groups"],
        work.topics,
        offsets=sums["telling"],
        streams=applications,
        held=sums["held"],
        met=readers,
        unread=set(sums["unread"]["group_id"].to_pylist()),
        complete=not work.snapshot.details.get("groups_incomplete"),
        now=seen_at(work.snapshot),
        deleted=gone,
        by_name=by_name,
    )


def _work(
    cluster: ClusterStore,
    snapshot: Manifest,
    settings: Settings,
    read: Mapping[str, pa.Table],
    *,
    base: Manifest | None,
    before: Sequence[Manifest],
) -> Work:
    declarations = topics.all_declarations(settings, cluster.declarations())
    named = topics.with_settings(topics.describe(read["topics"], declarations), read["configs"])
    named = topics.with_new(named, cluster, snapshot, settings.purge.pattern_refresh)
    short = {name: read[name] for name in ("brokers", "log_dirs", "reassignments")}
    telling = groups.telling(read["groups"])
    kept_for = settings.snapshots.longest
    return Work(snapshot, base, tuple(before), named, short, telling, kept_for)


def _caused(
    spark: SparkSession,
    read: Mapping[str, pa.Table],
    snapshot: Manifest,
    place: Place,
    done: tasks.Done,
) -> tasks.Done:
    """With causes of slow followers: the buckets that have any are written again."""
    buckets = [row["bucket"] for row in done.sums["slow"].to_pylist() if row["slow"]]
    if not buckets:
        return done
    asked = causes.asked(read)
    kernel = partial(kernels.caused, units=done.sums["units"], read=asked)
    found = tasks.run(spark, kernel, place.with_made(done.files()), snapshot, buckets)
    return done.then(found)


def _short(
    snapshot: Manifest,
    read: Mapping[str, pa.Table],
    sums: Mapping[str, pa.Table],
    alone: orphans.Found,
) -> dict[str, pa.Table]:
    """The findings that are made from sums, and those of orphans."""
    stock = disks.stock(sums["stock"], alone.rows)
    return {
        "blockers": partitions.blockers(
            sums["blockers"],
            read["groups"],
            complete=not snapshot.details.get("groups_incomplete"),
        ),
        "disks": disks.disks(read["log_dirs"], sums["disks"], stock, scans(snapshot)),
        "growth": growth.growth(sums["growth"], sums["log_dirs"]),
        "orphans": alone.orphans,
        "sightings": alone.sightings,
    }


def _used(
    work: Work,
    sums: Mapping[str, pa.Table],
    who: Readers,
    settings: Settings,
    *,
    incomplete: Sequence[str],
    rates: pa.Table,
) -> dict[str, pa.Table]:
    """Which topics nobody uses, and which retention fits the others; `rates`: `growth`."""
    at, known = work.snapshot.taken_at, work.topics
    days, margin = settings.idle.days, settings.retention.margin
    return {
        "idle_topics": advice.idle_topics(
            sums,
            known,
            who,
            incomplete=incomplete,
            taken_at=at,
            days=days,
            bytes_out=sums["fetched"],
        ),
        "retention_fit": advice.retention_fit(
            sums, known, rates, taken_at=at, seen_at=seen_at(work.snapshot), margin=margin
        ),
    }


def _unseen(
    spark: SparkSession,
    cluster: earlier.OnDriver,
    place: Place,
    work: Work,
    newest: Manifest | None,
) -> pa.Table:
    """Which topics somebody reads whom no group shows; `newest`: the analysis before."""
    snapshot, ids = work.snapshot, readings.last_day(cluster, work.snapshot)
    at = snapshot.taken_at
    rows = cluster.read("findings", newest.id, unseen.TABLE) if newest else None
    before = {} if rows is None else unseen.remembered(rows, at - work.kept_for)
    names = work.topics.select(["topic_no", "topic"])
    while len(ids) > 1 and (
        rows is None or unseen.is_due(rows, cluster.manifest("snapshots", ids[-1]).taken_at)
    ):
        told = tasks.run(spark, partial(kernels.scraped, ids=ids), place, snapshot).sums
        day = unseen.day(cluster, ids, told["sent"], before, at)
        found = tasks.run(
            spark, partial(kernels.sampled, ids=ids, topics=names, snapshot=snapshot), place,
            snapshot, then=partial(unseen.measured, day=day),
        ).sums  # fmt: skip
        torn = {*told["torn"]["snapshot_id"].to_pylist(), *found["torn"]["snapshot_id"].to_pylist()}
        if not torn:
            return found["unseen"].sort_by("topic")
        ids = tuple(i for i in ids if i not in torn)
    return unseen.kept(before, names["topic"].to_pylist(), at)


def _quality(
    snapshot: Manifest,
    read: Mapping[str, pa.Table],
    sums: Mapping[str, pa.Table],
    incomplete: Sequence[str],
    left_out: Mapping[str, str],
) -> pa.Table:
    found = quality.quality(sums["quality"], read, incomplete)
    found = quality.with_left_out(found, left_out)
    return quality.with_metrics(found, snapshot.details.get("metrics", ()))


_COLUMNS: dict[str, list[str] | None] = {
    "topics": None,
    "configs": ["scope", "name", "key", "value"],
    "reassignments": None,
    "brokers": ["broker_id", "rack", "reachable", "error"],
    "log_dirs": None,
    "groups": None,
}
# Topics have some thirty settings each, of which few are asked for.
_ONLY = {
    "configs": (pc.field("scope") != "topic")
    | pc.field("key").isin(topics.SETTINGS)
    | pc.match_substring(pc.field("key"), causes.THROTTLES)
}
