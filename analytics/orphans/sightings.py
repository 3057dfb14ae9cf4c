"""Since when each suspect is seen: carried from analysis to analysis, as `holds` is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from analytics.earlier import since
from analytics.orphans import suspects
from analytics.orphans.suspects import NO_GAPS, Gaps, Suspect
from analytics.readers.holds import oldest_kept
from analytics.tables import Tables
from dashboard.core.clock import format_time
from dashboard.store.clocks import clock_was_right
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES, UNASSIGNED

Row = dict[str, Any]  # of `sightings`
Seen = dict[tuple[Any, ...], Row]


def fold(
    tables: Tables, snapshot: Manifest, base: Manifest | None, unassigned: Collection[str]
) -> tuple[list[Row], list[Suspect]]:
    """The rows of `sightings`, and the suspects of `snapshot` itself.

    Goes on from the sightings of `base`, an earlier analysis, with every snapshot since then;
    `unassigned` are those in which DescribeLogDirs listed what no assignment names. Analyses of
    earlier versions counted from times that no clock proved: from those it begins anew.
    """
    cluster = tables.cluster
    ids = since(cluster, base, snapshot)
    new = [snapshot if i == snapshot.id else cluster.manifest("snapshots", i) for i in ids]
    oldest = oldest_kept(cluster, snapshot).as_py()
    seen: Seen = {}
    if base:
        remembered = cluster.read("findings", base.id, "sightings").to_pylist()
        proved = bool(base.details.get(PROVED))
        seen = {key_of(row): carried(row, proved) for row in remembered}
    found = _suspects(tables, new, unassigned)
    for manifest, rows in zip(new, found, strict=True):
        seen = step(
            seen, rows, manifest.taken_at, suspects.scans(manifest), oldest,
            gaps=suspects.gaps(manifest), proved=clock_was_right(manifest),
        )  # fmt: skip
    return list(seen.values()), found[-1]


def unassigned(cluster: ClusterStore, ids: Sequence[str]) -> pa.Table:
    """snapshot_id: which of these snapshots list replicas that no assignment names."""
    found = []
    for snapshot_id in ids:
        errors = cluster.read("snapshots", snapshot_id, "replicas", ["error"])["error"]
        if UNASSIGNED in errors.unique().to_pylist():
            found.append(snapshot_id)
    return pa.table({"snapshot_id": pa.array(found, pa.string())})


def to_table(rows: Sequence[Row]) -> pa.Table:
    """The findings table without its stamps."""
    return pa.Table.from_pylist(list(rows), schema=FINDING_TABLES["sightings"].unstamped.schema)


def step(
    before: Mapping[tuple[Any, ...], Row],
    rows: Sequence[Suspect],
    taken_at: datetime,
    scans: Mapping[tuple[int, str], datetime],
    oldest: datetime,
    *,
    gaps: Gaps = NO_GAPS,
    proved: bool,
) -> Seen:
    """What is known after one more snapshot.

    `rows` are its suspects, `scans` the log dirs that its inventories cover, but for `gaps`. A look
    counts when it was made after the snapshot that showed the suspect before: a folder that was
    only about to go, or a topic younger than its folder's scan, does not outlive that. A suspect
    that was looked for and is none any more is forgotten; one that nobody could look for is kept
    while a kept snapshot (`oldest`) may know it. Without `proved`, by a clock that was wrong or
    could not be compared, it shows what there is and adds no age: `snapshots_seen` counts from the
    first that is proved.
    """
    after = {row.key: _seen(row, before.get(row.key), taken_at, proved) for row in rows}
    for key, row in before.items():
        place = (row["broker_id"], row["log_dir"])
        looked_for = place in scans and not gaps.may_hide(*place, row["directory"], row["folder"])
        by_scan = row["scanned_at"] is not None
        if key not in after and by_scan and not looked_for and row["looked_at"] >= oldest:
            after[key] = row
    return after


def key_of(row: Row) -> tuple[Any, ...]:
    """As `Suspect.key`."""
    entry = row["folder"] == "checkpoint"
    place = (row["broker_id"], row["log_dir"], row["directory"])
    return (*place, row["topic"], row["partition"], entry)


def _seen(row: Suspect, before: Row | None, taken_at: datetime, proved: bool) -> Row:
    seen_at = taken_at if row.listed or row.scanned_at is None else row.scanned_at
    found = {name: getattr(row, name) for name in _OBSERVED}
    if before is not None and _same(row, before):
        if row.scanned_at is None:  # only listed now: what a scan told stays the best there is
            found |= {name: before[name] for name in _OF_A_SCAN}
        if not proved:
            return found | {name: before[name] for name in _COUNTED}
        if before["snapshots_seen"]:
            counts = seen_at > before["looked_at"]
            return found | {
                "first_seen_at": before["first_seen_at"],
                "last_seen_at": max(seen_at, before["last_seen_at"]),
                "snapshots_seen": before["snapshots_seen"] + counts,
                "looked_at": taken_at,
            }
    # Not from its scan on, which the clock of another host tells: from when this snapshot knew it.
    return found | {"first_seen_at": taken_at, "last_seen_at": taken_at,
                    "snapshots_seen": int(proved), "looked_at": taken_at}  # fmt: skip


def _same(row: Suspect, before: Row) -> bool:
    ids = {row.topic_id, before["topic_id"]} - {None}
    return len(ids) < 2


def carried(row: Row, proved: bool) -> Row:
    """A row of an earlier analysis; `proved`: it counted by proved clocks alone."""
    kept = {name: row[name] for name in (*_OBSERVED, *_COUNTED)}
    return kept if proved else kept | {"snapshots_seen": 0}


PROVED = "sightings_proved"  # the detail of an analysis that counted by proved clocks alone
_AT_ONCE = 16  # snapshots in one statement: their folders are shuffled together
_OF_A_SCAN = (
    "topic_id", "size_bytes", "index_bytes", "allocated_bytes", "newest_at", "scanned_at",
    "log_end_offset",
)  # fmt: skip
_OBSERVED = (
    "broker_id", "log_dir", "directory", "topic", "partition", "folder", "kind", *_OF_A_SCAN,
)  # fmt: skip
_COUNTED = ("first_seen_at", "last_seen_at", "snapshots_seen", "looked_at")


def _suspects(
    tables: Tables, snapshots: Sequence[Manifest], unassigned: Collection[str]
) -> list[list[Suspect]]:
    """Spark is asked only where there is something to find."""
    asked = [
        s
        for s in snapshots
        if s.tables.get("segments") or s.tables.get("checkpoints") or s.id in unassigned
    ]
    found: dict[str, list[Suspect]] = {}
    for start in range(0, len(asked), _AT_ONCE):
        some = asked[start : start + _AT_ONCE]
        found |= zip((s.id for s in some), suspects.suspects(tables, some), strict=True)
    return [found.get(snapshot.id, []) for snapshot in snapshots]


# A sighting in words, as evidence of an orphan: what was seen, by whom and when.


def evidence_told(seen: Row, today: Suspect | None, taken_at: datetime) -> str:
    """Sentences for an evidence card. `seen` is its sighting, `today` the snapshot's suspect."""
    sentences = [_looks(seen), _by_scan(seen)]
    if today is None:
        sentences.append(f"The snapshot of {format_time(taken_at)} could not look for it.")
    else:
        sentences += [_by_broker(seen, today, taken_at), _by_metadata(seen, today, taken_at)]
    return " ".join(sentence for sentence in sentences if sentence)


def _looks(seen: Row) -> str:
    looks = seen["snapshots_seen"]
    first = format_time(seen["first_seen_at"])
    if looks == 1:
        return f"Seen once, at {first}."
    return f"Seen {looks} times, from {first} to {format_time(seen['last_seen_at'])}."


def _by_scan(seen: Row) -> str:
    if seen["scanned_at"] is None:
        return "No inventory shows it."
    scan = f"The inventory of {format_time(seen['scanned_at'])}"
    if seen["folder"] == "checkpoint":
        return f"{scan} shows a checkpoint entry of it in {seen['log_dir']} and no folder there."
    topic_id = seen["topic_id"]
    named = f"topic id {topic_id}" if topic_id else "no topic id"
    return f"{scan} shows {seen['log_dir']}/{seen['directory']} with {named}."


def _by_broker(seen: Row, today: Suspect, taken_at: datetime) -> str:
    if not today.answered:
        return f"Broker {seen['broker_id']} did not answer for that log dir."
    if seen["folder"] in ("stray", "delete"):
        return "DescribeLogDirs never lists such a folder."
    bytes_there = f"lists it with {today.told_bytes} bytes"
    said = bytes_there if today.listed else "does not list it there"
    return f"DescribeLogDirs of {format_time(taken_at)} {said}."


def _by_metadata(seen: Row, today: Suspect, taken_at: datetime) -> str:
    topic, moment = seen["topic"], format_time(taken_at)
    if not today.has_topic and today.replicas is None and today.name_id is None:
        return f"The metadata of {moment} knows no topic {topic}."
    names = today.name_id or "no id"
    said = f"The metadata of {moment} has topic {topic} with {names}"
    if today.replicas is None:
        return f"{said}, without a partition {seen['partition']}."
    placed = f"{said}; partition {seen['partition']} is on brokers {_listed(today.replicas)}"
    if today.adding or today.removing:
        return (
            f"{placed}, being reassigned: adding {_listed(today.adding)}, "
            f"removing {_listed(today.removing)}."
        )
    return f"{placed}, no reassignment."


def _listed(brokers: Sequence[int] | None) -> str:
    return ", ".join(map(str, brokers or ())) or "none"
