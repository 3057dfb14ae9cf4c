"""Findings that propose something, a row per topic: which topics nobody writes to and nobody reads,
and which retention fits their declared readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import records
from dashboard.domain.system_topics import kind_of, tool
from dashboard.estimate.curves import kept
from dashboard.safety.readers import Readers
from dashboard.store.tables import FINDING_TABLES
from dashboard.topics.idle import COMMITS, METRICS, OFFSETS, IdleTopic, WantedBy
from dashboard.topics.retention_fit import SHORTER, RetentionFit

_QUIET = timedelta(days=1)  # what was written to since then is no row
_GUARD = [field.name for field in fields(WantedBy)]
_SCHEMA = FINDING_TABLES["idle_topics"].unstamped.schema


def idle_topics(
    sums: Mapping[str, pa.Table],
    topics: pa.Table,
    who: Readers,
    *,
    incomplete: Sequence[str],
    taken_at: datetime,
    days: int,
    bytes_out: pa.Table | None = None,
) -> pa.Table:
    """The `idle_topics` table, without snapshot_id and taken_at, judged for so many `days`.

    `sums`: last_writes, wanted, blockers and held of all buckets; `topics`: `topics.with_new`;
    `incomplete`: why the list of groups may lack one. `bytes_out`: topic and bytes_out_per_hour,
    what clients (not followers) fetched, null where it was not measured; None: nobody measured it.
    """
    written = sums["last_writes"].filter(_is_quiet(taken_at)).to_pylist()
    ends = {row["topic"]: row for row in written}
    quiet = pc.field("topic").isin(pa.array(ends, pa.string()))
    own = {name: sums[name].filter(quiet) for name in ("wanted", "blockers", "held")}
    facts = _facts(own, who, incomplete, bytes_out)
    known = {row["topic"]: row for row in topics.filter(quiet).to_pylist()}
    rows = [_row(ends[name], topic, facts, taken_at) for name, topic in sorted(known.items())]
    return pa.Table.from_pylist([_fields(row.judged(days)) for row in rows], schema=_SCHEMA)


def _fields(row: IdleTopic) -> dict[str, Any]:
    """As `asdict`, which copies each list and looks into each value: most of the time that 40,000
    topics took, all of it in the driver.
    """
    found = {name: getattr(row, name) for name in _SCHEMA.names}
    if row.guards is not None:
        found["guards"] = [{n: getattr(guard, n) for n in _GUARD} for guard in row.guards]
    return found


@dataclass(frozen=True)
class _Facts:
    """What is known of topics beside their log ends: who may want their records, groups with an
    offset, their newest commit and bytes per hour that clients fetch, by name; groups with members
    that read it, and share groups with a start offset, by number; why nobody can tell whether a
    topic has readers (None: somebody can).
    """

    guards: Mapping[str, Sequence[WantedBy]]
    groups: Mapping[str, Sequence[str]]
    commit: Mapping[str, datetime]
    out: Mapping[str, int | None]
    reading: Mapping[int, Sequence[str]]
    share: Mapping[int, Sequence[str]]
    unknown: str | None


def _facts(
    sums: Mapping[str, pa.Table],
    who: Readers,
    incomplete: Sequence[str],
    bytes_out: pa.Table | None,
) -> _Facts:
    commits = sums["blockers"]
    newest = commits.filter(commits["last_commit_at"].is_valid())
    newest = newest.group_by("topic").aggregate([("last_commit_at", "max")])
    nowhere = who.share["topic_no"].is_null()
    share = who.share.filter(pc.invert(nowhere))
    begun, listening = share.filter(share["begun"]), share.filter(pc.invert(share["begun"]))
    alive = [t.select(["topic_no", "group_id"]) for t in (who.members, who.patterns, listening)]
    everywhere = who.share.filter(nowhere)["group_id"].to_pylist()
    return _Facts(
        guards=_guards(sums["wanted"]),
        groups=_lists(sums["held"].select(["topic", "group_id"])),
        commit=_pairs(newest),
        out={} if bytes_out is None else _pairs(bytes_out.select(["topic", "bytes_out_per_hour"])),
        reading=_lists(pa.concat_tables(alive)),
        share=_lists(begun.select(["topic_no", "group_id"])),
        unknown=_unknown(incomplete, [*who.anywhere.to_pylist(), *everywhere]),
    )


def _is_quiet(taken_at: datetime) -> pc.Expression:
    """Whether no log end is known to have moved in the last day; of sums of topics."""
    moved_at, then = pc.field("moved_at"), pa.scalar(taken_at - _QUIET, pa.timestamp("us", "UTC"))
    return moved_at.is_null() | (moved_at <= then)


def _row(
    ends: Mapping[str, Any], topic: Mapping[str, Any], facts: _Facts, taken_at: datetime
) -> IdleTopic:
    name = topic["topic"]
    kind = kind_of(name, is_system=topic["is_system"], cleanup_policy=topic["cleanup_policy"])
    measured = not ends["unmeasured"]
    out = facts.out.get(name)
    evidence = [OFFSETS] if not ends["unread"] else []
    evidence += [COMMITS] if facts.unknown is None else []
    known = [at for at in (ends["moved_at"], ends["known_since"]) if at is not None]
    return IdleTopic(
        taken_at=taken_at,
        topic=name,
        topic_id=topic["topic_id"],
        kind=kind,
        tool=tool(name, kind),
        owner=topic["owner"],
        partitions=ends["partitions"],
        unread_partitions=ends["unread"],
        quiet_since=None if ends["never_known"] else max(known, default=None),
        known_since=None if ends["never_known"] else ends["known_since"],
        last_moved_at=ends["moved_at"],
        groups=len(facts.groups.get(name, ())),
        reading_groups=sorted(set(facts.reading.get(topic["topic_no"], ()))),
        share_groups=sorted(facts.share.get(topic["topic_no"], ())),
        last_commit_at=facts.commit.get(name),
        bytes_out_per_hour=out,
        records=ends["records"] if measured else None,
        size_bytes=ends["size_bytes"] if measured else None,
        evidence=evidence + ([METRICS] if out is not None else []),
        retention_ms=topic["retention_ms"],
        replay_window_ms=topic["replay_window_ms"],
        guards=facts.guards.get(name, ()),
        readers_unknown=facts.unknown,
    )


def _guards(found: pa.Table) -> dict[str, list[WantedBy]]:
    """Per topic its guards in order, what is unread first by how much it is."""
    rows = found.to_pylist()
    rows.sort(key=lambda r: (r["name"], -(r["records"] or 0), r["group_id"] or ""))
    guards: dict[str, list[WantedBy]] = {}
    for row in rows:
        guards.setdefault(row.pop("topic"), []).append(WantedBy(**row))
    return guards


def _pairs(table: pa.Table) -> dict[Any, Any]:
    """The second column by the first."""
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _lists(table: pa.Table) -> dict[Any, list[Any]]:
    """The values of the second column by the first."""
    found: dict[Any, list[Any]] = {}
    for key, value in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found.setdefault(key, []).append(value)
    return found


def _unknown(incomplete: Sequence[str], anywhere: Iterable[str]) -> str | None:
    """Why nobody can tell whether a topic has readers; None: somebody can."""
    names = sorted(set(anywhere))
    said = list(incomplete)
    if names:
        said.append(f"group {names[0]} may read any topic" if len(names) == 1 else
                    f"{len(names)} groups may read any topic, {names[0]} among them")  # fmt: skip
    return "; ".join(said) or None


# Which retention fits each topic's declared readers, and what a shorter one would free.

_HOUR = 3_600_000
_TIME = pa.timestamp("us", tz="UTC")
_FREED = ("freed_low_bytes", "freed_likely_bytes", "freed_high_bytes")
_SIDES = ("soonest", "likely", "latest")  # what most stays, and so least is freed, comes first
_FIT_SCHEMA = FINDING_TABLES["retention_fit"].unstamped.schema


@dataclass(frozen=True, slots=True)
class _Lag:
    """What is known of how far behind a topic's readers were; a row of the sums."""

    topic: str
    partitions: int
    unknown: int
    since: datetime | None
    groups_since: datetime | None
    lag_low_ms: int | None
    lag_high_ms: int | None


@dataclass(frozen=True, slots=True)
class _Topic:
    topic: str
    topic_id: str | None
    owner: str | None
    retention_ms: int | None
    replay_window_ms: int | None
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class _Rate:
    topic: str
    bytes_in_per_hour: int | None
    replicas: int | None
    window_seconds: int | None


def retention_fit(
    sums: Mapping[str, pa.Table],
    topics: pa.Table,
    growth: pa.Table,
    *,
    taken_at: datetime,
    seen_at: datetime,
    margin: float,
) -> pa.Table:
    """The `retention_fit` table, without snapshot_id and taken_at. How long something is known
    counts to `taken_at`; `seen_at` is the snapshot's by its id, as groups were last seen.

    `sums`: reader_lags, last_writes and held of all buckets; `topics`: `topics.with_new`; `growth`:
    the table of that name. Bytes are freed by the rate of what came, as the page Growth has it:
    null where no rate is known, or only that of a part of the replicas that hold the bytes.
    """
    found = sums["reader_lags"]
    # Mostly few topics are declared, and a row of each other one would be made for nothing.
    judged_ones = pc.field("topic").isin(found["topic"].unique())
    lags = records(found.filter(found["guard"].is_null()), _Lag)
    guards: dict[str, list[str]] = {}
    for row in found.filter(found["guard"].is_valid()).to_pylist():
        guards.setdefault(row["topic"], []).append(row["guard"])
    named = {topic.topic: topic for topic in records(topics.filter(judged_ones), _Topic)}
    gone = _gone(sums["held"].filter(judged_ones), seen_at)
    sizes = {
        row["topic"]: (None if row["unmeasured"] else row["size_bytes"], row["replicas"])
        for row in sums["last_writes"].filter(judged_ones).to_pylist()
    }
    whole = growth.filter(judged_ones & pc.field("broker_id").is_null())
    rates = {rate.topic: rate for rate in records(whole, _Rate)}
    rows = []
    for lag in sorted(lags, key=lambda lag: lag.topic):
        topic, known = named[lag.topic], not lag.unknown
        size, replicas = sizes[lag.topic]
        row = RetentionFit(
            topic=topic.topic, topic_id=topic.topic_id, owner=topic.owner,
            retention_ms=topic.retention_ms, replay_window_ms=topic.replay_window_ms,
            partitions=lag.partitions, unknown_partitions=lag.unknown,
            lag_since=lag.since if known else None,
            groups_since=lag.groups_since if known else None,
            lag_low_ms=lag.lag_low_ms, lag_high_ms=lag.lag_high_ms if known else None,
            taken_at=taken_at, margin=margin,
            guards=sorted(guards.get(lag.topic, ())), gone_groups=sorted(gone.get(lag.topic, ())),
            size_bytes=size,
        ).judged()  # fmt: skip
        rows.append({**asdict(row), **_freed(row, topic, rates.get(lag.topic), replicas)})
    return pa.Table.from_pylist(rows, schema=_FIT_SCHEMA)


def _gone(held: pa.Table, seen_at: datetime) -> dict[str, set[str]]:
    """Groups that a snapshot showed on a topic and the newest does not: they may come back."""
    found: dict[str, set[str]] = {}
    missed = held.filter(pc.less(held["last_seen_at_min"], pa.scalar(seen_at, _TIME)))
    for row in missed.select(["topic", "group_id"]).to_pylist():
        found.setdefault(row["topic"], set()).add(row["group_id"])
    return found


def _freed(
    row: RetentionFit, topic: _Topic, rate: _Rate | None, replicas: int | None
) -> dict[str, int | None]:
    """Bytes that leave under the shorter retention, on all `replicas`."""
    # Of a log that is new where it lies nobody knows yet what comes: all of it would be freed.
    come = rate.bytes_in_per_hour if rate is not None and rate.replicas == replicas else None
    size = row.size_bytes
    fits = row.fits_ms if row.verdict == SHORTER else None
    if fits is None or rate is None or come is None or size is None or rate.window_seconds is None:
        return dict.fromkeys(_FREED)
    segment = min(size, topic.segment_bytes * (rate.replicas or 0))
    stays = kept(
        np.array([max(come, 0.0)]),
        np.array([rate.window_seconds / 3600]),
        fits / _HOUR,
        np.array([float(segment)]),
    )
    return {
        name: max(size - round(float(stays[side][0])), 0)
        for name, side in zip(_FREED, _SIDES, strict=True)
    }
