"""The `orphans` findings: suspects that outlived a look, and the verdict whether each may go.

A suspect becomes an orphan when a second look, made after a snapshot that had shown it already,
shows it again. A `-stray` folder is the broker's own word and needs no second look; a `-delete`
folder must outlive the broker's delay, an entry its rewriting. docs/orphans.md says why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from analytics.orphans import sightings
from analytics.orphans.broker_facts import Brokers
from analytics.orphans.suspects import Suspect
from analytics.tables import Tables
from dashboard.domain.acts import (
    CHECKPOINT_ENTRY,
    LATE_DELETE,
    LEAST_SNAPSHOTS,
    NEVER,
    REMOVABLE,
    SCHEDULED,
    TOO_MANY,
)
from dashboard.safety.last_copy import Kept, Living, Records, kept, later
from dashboard.settings.settings import Settings
from dashboard.store.clocks import wrong_clock
from dashboard.store.snapshot_files import Manifest
from dashboard.store.tables import FINDING_TABLES

Row = dict[str, Any]
# Kafka acts when the interval is over, in a thread that runs once in an interval itself.
_SLACK = timedelta(seconds=60)


@dataclass(frozen=True)
class Found:
    """What one analysis says of orphans: the two tables, and the rows of `judged`."""

    orphans: pa.Table
    sightings: pa.Table
    rows: Sequence[Row]


def find(
    tables: Tables,
    snapshot: Manifest,
    base: Manifest | None,
    known: Brokers,
    *,
    settings: Settings,
    unassigned: Collection[str],
) -> Found:
    """The orphans of a snapshot, going on from the sightings of `base`.

    `known` is what the brokers said, `unassigned` as `sightings.fold` has it.
    """
    seen, now = sightings.fold(tables, snapshot, base, unassigned)
    rows = judged(
        seen,
        now,
        known,
        snapshot.taken_at,
        delay=settings.orphan_delay,
        most_share=settings.orphan_most_share,
        clock=wrong_clock(snapshot),
    )
    return Found(to_table(rows), sightings.to_table(seen), rows)


def judged(
    seen: Sequence[Row],
    now: Sequence[Suspect],
    known: Brokers,
    taken_at: datetime,
    *,
    delay: timedelta,
    most_share: float,
    clock: str = "",
) -> list[Row]:
    """The orphans: columns of the table, and `folder`, `seen_now`, `told_bytes` (null: not listed).

    `seen` are the rows of `sightings`, `now` the suspects of this snapshot, taken at `taken_at`;
    `known` is what the brokers said; `delay`, `most_share` and `clock` are as `verdict` has them.
    """
    today = {suspect.key: suspect for suspect in now}
    told = [row for row in seen if _outlived(row, known)]
    shares = _shares(told, known)
    settings = known.topic_settings(row["topic"] for row in told)
    rows = []
    for row in told:
        current = today.get(sightings.key_of(row))
        facts = _facts(row, current, known, shares, settings)
        said = verdict(facts, now=taken_at, delay=delay, most_share=most_share, clock=clock)
        rows.append({
            **{name: row[name] for name in _CARRIED},
            # An entry has no folder: its name in the sightings is where one would be.
            "directory": None if row["kind"] == CHECKPOINT_ENTRY else row["directory"],
            "current_topic_id": current.name_id if current else None,
            "verdict": said.verdict, "reason": said.reason, "check_at": said.check_at,
            "evidence": sightings.evidence_told(row, current, taken_at),
            "folder": row["folder"], "seen_now": current is not None,
            "told_bytes": current.told_bytes if current else None,
        })  # fmt: skip
    return rows


def to_table(rows: Sequence[Row]) -> pa.Table:
    """The findings table without its stamps."""
    return pa.Table.from_pylist(list(rows), schema=FINDING_TABLES["orphans"].unstamped.schema)


_CARRIED = (
    "broker_id", "log_dir", "directory", "topic", "partition", "topic_id", "kind", "size_bytes",
    "index_bytes", "allocated_bytes", "newest_at", "first_seen_at", "last_seen_at",
    "snapshots_seen", "log_end_offset", "scanned_at",
)  # fmt: skip


def _outlived(row: Row, known: Brokers) -> bool:
    if row["folder"] == "stray":
        return True
    wait = timedelta(0)
    if row["kind"] == LATE_DELETE:
        wait = known.delete_delay(row["broker_id"]) + _SLACK
    elif row["kind"] == CHECKPOINT_ENTRY:
        wait = known.rewrite_interval(row["broker_id"]) + _SLACK
    enough = row["snapshots_seen"] >= LEAST_SNAPSHOTS
    return bool(enough and row["last_seen_at"] - row["first_seen_at"] > wait)


def _shares(rows: Sequence[Row], known: Brokers) -> dict[int, float | None]:
    """Broker -> the larger share of its folders and of its bytes that are orphans."""
    found: dict[int, float | None] = {}
    for broker in {row["broker_id"] for row in rows}:
        mine = [r for r in rows if r["broker_id"] == broker and r["kind"] != CHECKPOINT_ENTRY]
        found[broker] = known.share(broker, len(mine), sum(r["size_bytes"] or 0 for r in mine))
    return found


def _facts(
    row: Row,
    today: Suspect | None,
    known: Brokers,
    shares: Mapping[int, float | None],
    settings: Mapping[str, Mapping[str, str]],
) -> Facts:
    broker = row["broker_id"]
    return Facts(
        kind=row["kind"],
        directory=row["directory"],
        topic_id=row["topic_id"],
        assigned=bool(today and today.assigned),
        answered=known.answered(broker, row["log_dir"]),
        seen_now=today is not None,
        same_name=_health(today),
        share=shares[broker],
        first_seen_at=row["first_seen_at"],
        last_seen_at=row["last_seen_at"],
        snapshots_seen=row["snapshots_seen"],
        newest_at=row["newest_at"],
        retention=known.retention(broker),
        log_bytes=row["size_bytes"],
        log_end_offset=row["log_end_offset"],
        living=_living(row, today, settings),
        # A checkpoint's listing is of another folder; of two log dirs `is_suspect` chose this one.
        hosted=bool(today and today.listed and row["folder"] in ("live", "future")),
    )


def _living(
    row: Row, today: Suspect | None, settings: Mapping[str, Mapping[str, str]]
) -> Living | None:
    """The partition that has the folder's topic id today."""
    if today is None or not today.has_topic:
        return None
    return Living(
        row["topic"], row["partition"], settings.get(row["topic"], {}),
        today.living_start, today.living_end,
    )  # fmt: skip


def _health(today: Suspect | None) -> str | None:
    """Of the partition that has the folder's name today."""
    if today is None or today.replicas is None:
        return None
    if today.leader_id is None:
        return "offline"
    behind = set(today.replicas) - set(today.isr or ())
    return "under-replicated" if behind else "healthy"


# Whether an orphan may go: KIP-370's reasons, as a pure function of what was seen.
#
# A verdict permits nothing: the sweep asks the live cluster again before it touches a folder.


class Verdict(NamedTuple):
    """`check_at`: when a scheduled orphan is worth another look; None for the others."""

    verdict: str
    reason: str
    check_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen of one orphan. None is unknown.

    `same_name`: the partition that has this name today, `healthy`, `under-replicated` or `offline`;
    None: there is none. `share`: the larger of its broker's shares of folders and of bytes that
    are orphans, 0 to 1. `retention`: the broker's default; negative: records are kept for ever.
    `log_bytes` and `log_end_offset`: what its records take, and the offset after the last one.
    `living`: the partition that has its topic id today; None: there is none. `hosted`: its broker
    lists it as a replica of its own.
    """

    kind: str
    directory: str | None
    topic_id: str | None
    assigned: bool
    answered: bool
    seen_now: bool
    same_name: str | None
    share: float | None
    first_seen_at: datetime
    last_seen_at: datetime
    snapshots_seen: int
    newest_at: datetime | None
    retention: timedelta | None
    log_bytes: int | None = None
    log_end_offset: int | None = None
    living: Living | None = None
    hosted: bool = False


def verdict(
    facts: Facts, *, now: datetime, delay: timedelta, most_share: float, clock: str = ""
) -> Verdict:
    """Removable, scheduled with the time of another look, or never, and why.

    `now` is the snapshot's time, `delay` how long every snapshot that could look must have shown
    the orphan, and `most_share` how much of a broker may be orphans before that smells of lost
    metadata. `clock`: by what clock the snapshot was taken, where wrong (`clocks`).
    """
    wanted = _wanted(facts, now)
    return (
        _never(facts, most_share, wanted)
        or _untimed(facts, delay, clock)
        or _scheduled(facts, now, delay)
        or _awaited(wanted, now, delay)
        or _removable(facts, now)
    )


def _wanted(facts: Facts, now: datetime) -> Kept | None:
    if facts.living is None:
        return None
    records = Records(facts.log_bytes, facts.log_end_offset, facts.newest_at)
    return kept(records, facts.living, now)


def _never(facts: Facts, most_share: float, wanted: Kept | None) -> Verdict | None:
    reason = None
    if facts.kind == CHECKPOINT_ENTRY:
        reason = "an entry in a file that the broker rewrites: there is no folder to remove"
    elif facts.topic_id is None:
        reason = "no topic id: nothing tells this folder from the one of a topic of the same name"
    elif facts.directory is None:
        reason = "the name of its folder is not known: no inventory showed it"
    elif not facts.answered:
        reason = "its broker, or that log dir of it, did not answer: nobody can say what it needs"
    elif facts.assigned:
        reason = "the cluster assigns this topic id and partition to this broker"
    elif facts.hosted:
        reason = (
            "its broker has loaded it and lists it as a replica of its own: nothing may take it "
            "from under a running broker. One with stray detection names it -stray when it restarts"
        )
    elif facts.same_name in ("under-replicated", "offline"):
        reason = f"the partition of the same name is {facts.same_name}: this may be its last copy"
    elif facts.share is None:
        reason = "how much of its broker is orphans is not known"
    elif facts.share > most_share:
        reason = (
            f"{facts.share * 100:.3g} % of the broker's folders or bytes are orphans, more than "
            f"{most_share * 100:.3g} %: {TOO_MANY}"
        )
    elif facts.retention is not None and facts.retention < timedelta(0):
        reason = "the broker's default retention is unlimited"
    elif wanted is not None and wanted.until is None:
        reason = wanted.reason
    return Verdict(NEVER, reason) if reason else None


def _untimed(facts: Facts, delay: timedelta, clock: str) -> Verdict | None:
    """Ages are counted to the snapshot's time: a wrong clock ends no interval."""
    if not clock:
        return None
    why = f"its snapshot was taken {clock}: nobody knows how old its records are"
    again = "set the clocks right, then collect and analyze again"
    return Verdict(SCHEDULED, f"{why}; {again}", later(facts.last_seen_at, delay))


def _seen_for(facts: Facts, now: datetime) -> timedelta:
    """Not to a time still to come, which some snapshot before bore whose clock ran ahead."""
    return min(facts.last_seen_at, now) - facts.first_seen_at


def _scheduled(facts: Facts, now: datetime, delay: timedelta) -> Verdict | None:
    seen_for = _seen_for(facts, now)
    again = later(now, delay)
    if not facts.seen_now:
        return Verdict(
            SCHEDULED, "no inventory of this snapshot could look there: take a new one", again
        )
    if facts.newest_at is None:
        return Verdict(SCHEDULED, "the age of its newest record is not known", again)
    if facts.retention is None:
        return Verdict(SCHEDULED, "the broker's default retention is not known", again)
    old_at = later(facts.newest_at, facts.retention)
    proved_since = facts.first_seen_at if facts.snapshots_seen else now
    sure_at = later(proved_since, delay)
    due = max(sure_at, old_at, now)
    if facts.snapshots_seen < LEAST_SNAPSHOTS or seen_for < delay:
        times = f"{facts.snapshots_seen} snapshot{'s' * (facts.snapshots_seen != 1)}"
        reason = f"seen by {times} over {in_words(seen_for)}; {in_words(delay)} are asked for"
        return Verdict(SCHEDULED, reason, due)
    if old_at >= now:
        reason = (
            f"its newest record is {in_words(now - facts.newest_at)} old; the broker keeps records "
            f"for {in_words(facts.retention)}"
        )
        return Verdict(SCHEDULED, reason, due)
    return None


def _awaited(wanted: Kept | None, now: datetime, delay: timedelta) -> Verdict | None:
    """What its living partition's own retention has yet to let go of."""
    if wanted is None or wanted.until is None:
        return None
    return Verdict(SCHEDULED, wanted.reason, max(wanted.until, later(now, delay)))


def _removable(facts: Facts, now: datetime) -> Verdict:
    assert facts.newest_at is not None and facts.retention is not None
    let_go = ""
    if facts.living is not None and facts.log_bytes:
        let_go = (
            f" and its topic's own; the log of {facts.living.topic}-{facts.living.partition} "
            f"begins at {facts.living.log_start_offset}, past its end at {facts.log_end_offset}"
        )
    return Verdict(
        REMOVABLE,
        f"every snapshot of {in_words(_seen_for(facts, now))} that could look there shows it, "
        f"{facts.snapshots_seen} of them; no assignment names it; its newest record is "
        f"{in_words(now - facts.newest_at)} old, past the broker's "
        f"{in_words(facts.retention)} of retention{let_go}",
    )


def in_words(duration: timedelta) -> str:
    """A duration with its largest unit and the next: `9 d 4 h`, `30 s`, `0 s`."""
    seconds = int(duration.total_seconds())
    if seconds < 0:
        return f"-{in_words(-duration)}"
    parts: list[tuple[int, str]] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count or parts or unit == "s":
            parts.append((count, unit))
    first, rest = parts[0], parts[1:2]
    words = [first, *(part for part in rest if part[0])]
    return " ".join(f"{count} {unit}" for count, unit in words)
