"""Whether a topic is idle: the rule, in one place for analysis, command line, page and report.

Nothing here deletes a topic, and nothing of ours does: it gives the line to copy.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dashboard.core.clock import format_time
from dashboard.core.csv_cells import rows_as_csv
from dashboard.core.words import binary
from dashboard.domain.system_topics import COMPACTED, DEAD_LETTER, ORDINARY, RETRY, STREAMS, TOOL
from dashboard.settings.sections import Price, beside
from dashboard.topics.retention_fit import named, span

IDLE, READ, WRITTEN, UNKNOWN = "idle", "read", "written", "unknown"
# What tells that nobody writes or reads: log ends, groups' offsets and members, bytes fetched.
OFFSETS, COMMITS, METRICS = "offsets", "commits", "metrics"
_ORDER = (IDLE, UNKNOWN, READ, WRITTEN)
_UNREAD, _WINDOW, _UNRESOLVED = "unread-by-group", "replay-window", "target-unresolved"
_UNDECLARED = "readers-undeclared"  # whoever deletes has to know it, and may have asked the owner
_MOST_NAMED = 3  # groups in a reason
_APART = {
    COMPACTED: "compacted: readers may load its newest values at any start",
    DEAD_LETTER: "dead letters: quiet while nothing fails",
    RETRY: "retries: quiet while nothing fails",
    STREAMS: "Kafka Streams' own: its application makes and deletes it",
    TOOL: "state of a tool: never to be deleted by hand",
    None: "its cleanup policy could not be read",
}


# Of topics that would be proposed: what keeps one from it, in words; others are left out.
Ask = Callable[[Sequence[str]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class WantedBy:
    """A guard that a purge of all records would have, of a group or of nobody by name."""

    name: str
    group_id: str | None
    partitions: int | None
    records: int | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleTopic:
    """A row of `idle_topics`: a topic without a known write in the last day, and who reads it.

    None is unknown; of `guards`: nobody asked. `verdict` and `reason` are for `idle_days`.
    """

    snapshot_id: str = ""
    taken_at: datetime
    topic: str
    topic_id: str | None = None
    kind: str | None
    tool: str | None = None
    owner: str | None = None
    partitions: int
    unread_partitions: int
    quiet_since: datetime | None
    known_since: datetime | None = None
    last_moved_at: datetime | None
    groups: int
    reading_groups: Sequence[str] | None
    share_groups: Sequence[str] | None
    last_commit_at: datetime | None
    bytes_out_per_hour: int | None
    records: int | None
    size_bytes: int | None
    evidence: Sequence[str] | None
    readers_unknown: str | None
    retention_ms: int | None
    replay_window_ms: int | None
    guards: Sequence[WantedBy] | None
    idle_days: int = 0
    verdict: str = UNKNOWN
    reason: str = ""

    def judged(self, days: int) -> IdleTopic:
        """Judged for so many days.

        Who reads it is known by what was seen; that nobody does only if all could be seen.
        """
        since = self.taken_at - timedelta(days=days)
        verdict, reason = _read(self, since) or _quiet(self, days, since) or (IDLE, _idle(self))
        return replace(self, idle_days=days, verdict=verdict, reason=reason)


_CSV = ("topic", "verdict", "reason", "kind", "tool", "owner", "size_bytes", "quiet_since",
        "groups", "last_commit_at", "evidence")  # fmt: skip


def as_csv(rows: Sequence[IdleTopic]) -> str:
    """A line a topic, under the columns' own names."""
    return rows_as_csv(_CSV, ([getattr(row, name) for name in _CSV] for row in rows))


@dataclass(frozen=True, slots=True)
class Idle:
    """Rows of `idle_topics` judged for so many days: first the idle ones, of these the proposed
    ones, largest first. `unusable`: why the findings do not tell of now; "": they do. `doubts`:
    per topic what a purge of it would be guarded by beside its findings.
    """

    rows: tuple[IdleTopic, ...]
    days: int
    unusable: str
    doubts: Mapping[str, str] = field(default_factory=dict)

    def of(self, verdict: str) -> list[IdleTopic]:
        """The rows of one verdict."""
        return [row for row in self.rows if row.verdict == verdict]

    @property
    def deletable(self) -> list[IdleTopic]:
        """Idle topics whose deletion may be offered."""
        return [row for row in self.of(IDLE) if self.not_proposed(row) is None]

    def not_proposed(self, row: IdleTopic) -> str | None:
        """Why the deletion of an idle topic is not offered, with numbers; None: it is."""
        return not_proposed(row) or self.unusable or self.doubts.get(row.topic)

    def delete_command(self, row: IdleTopic, bootstrap_servers: str | None) -> str | None:
        """The line that deletes it, to be copied; None for a topic that is not proposed."""
        if row.verdict != IDLE or self.not_proposed(row) is not None:
            return None
        return _delete_command(row.topic, bootstrap_servers)


def idle(rows: Iterable[IdleTopic], days: int, unusable: str, ask: Ask | None = None) -> Idle:
    """The rows of `idle_topics`, judged for other days than the analysis took.

    `unusable` as `findings_age` has it: who reads and writes by now nobody knows then. `ask` is
    asked of the topics that would be proposed: `purge/evidence/standards.said`.
    """
    found = [row.judged(days) for row in rows]
    first = Idle(tuple(found), days, unusable)
    names = sorted(row.topic for row in first.deletable)
    doubts = ask(names) if ask is not None and names else {}
    found.sort(key=lambda row: _place(row, doubts))
    return Idle(tuple(found), days, unusable, doubts)


def _place(row: IdleTopic, doubts: Mapping[str, str]) -> tuple[int, bool, int, str]:
    why = not_proposed(row) or doubts.get(row.topic)
    withheld = row.verdict == IDLE and why is not None
    return _ORDER.index(row.verdict), withheld, -(row.size_bytes or 0), row.topic


def _read(row: IdleTopic, since: datetime) -> tuple[str, str] | None:
    if groups := row.reading_groups:
        return READ, f"members of group {named(groups)} read it"
    if shared := row.share_groups:
        return READ, f"share group {named(shared)} has a start offset on it"
    if (row.bytes_out_per_hour or 0) > 0:
        return READ, f"clients fetch {row.bytes_out_per_hour} bytes of it an hour"
    if row.last_commit_at is not None and row.last_commit_at > since:
        return READ, f"a group committed by {format_time(row.last_commit_at)}"
    return None


def _quiet(row: IdleTopic, days: int, since: datetime) -> tuple[str, str] | None:
    """Why nobody can say that it was quiet for so long; None: it was."""
    moved, quiet = row.last_moved_at, row.quiet_since
    if moved is not None and moved > since:
        return WRITTEN, f"written to by {format_time(moved)}"
    if row.unread_partitions or quiet is None:
        return UNKNOWN, (
            f"the log ends of {row.unread_partitions} of {row.partitions} partitions are not "
            "known in the newest snapshot: not read, by a clock that was wrong, or while a replica "
            "was out of sync"
        )
    if quiet > since:
        return UNKNOWN, (
            f"not known for long enough: since {format_time(quiet)}, {_days(days)} are asked for"
        )
    if row.readers_unknown is not None:
        return UNKNOWN, f"who reads it is not known: {row.readers_unknown}"
    return None


def _idle(row: IdleTopic) -> str:
    who = "no group has an offset on it"
    if row.groups:
        held = "1 group holds an offset" if row.groups == 1 else (
            f"{row.groups} groups hold offsets"
        )  # fmt: skip
        last = row.last_commit_at
        moved = f"none moved since {format_time(last)}" if last else "none was seen to move"
        who = f"{held} on it, {moved}, and none has members"
    quiet = row.quiet_since or row.taken_at  # it is known: `_quiet` had nothing to say
    return f"no write since {format_time(quiet)}; {who}"


def _days(days: int) -> str:
    return "1 day" if days == 1 else f"{days} days"


def headline(found: Idle, price: Price | None = None) -> str:
    """How many topics are idle, what deleting those proposed would give back, what is not known.

    Bytes are those of all replicas; unmeasured ones are left out and said to be. `price` tells
    what they cost.
    """
    idle_rows, offered = found.of(IDLE), found.deletable
    said = f"{_topics(len(idle_rows))} idle for {_days(found.days)} or more"
    if offered:
        known = [row.size_bytes for row in offered if row.size_bytes is not None]
        if known:
            cost = beside(price, sum(known))
            said += f"; {_deleting(len(offered))} give back {binary(sum(known))}{cost}"
        if len(known) < len(offered):
            said += f"; of {len(offered) - len(known)} the bytes are not known"
    withheld = len(idle_rows) - len(offered)
    said += f"; not proposed: {withheld}" if withheld else ""
    unknown = len(found.of(UNKNOWN))
    return said + (f"; of {_topics(unknown)} it is not known" if unknown else "") + "."


def _topics(count: int) -> str:
    return "1 topic" if count == 1 else f"{count} topics"


def _deleting(count: int) -> str:
    return "deleting the one that is proposed would" if count == 1 else (
        f"deleting the {count} that are proposed would"
    )  # fmt: skip


def sure(row: IdleTopic) -> str:
    """By which evidence, as words: `offsets, commits`."""
    return ", ".join(row.evidence or ()) or "none"


def not_proposed(row: IdleTopic) -> str | None:
    """Why no findings of an idle topic propose to delete it, with numbers; None: they do."""
    if row.kind != ORDINARY:
        return _APART[row.kind]
    return "; ".join(_kept(row)) or None


def _kept(row: IdleTopic) -> list[str]:
    """For whom its records are kept, or may be, by the guards of a purge of all of them."""
    if row.guards is None:
        return ["who may want its records is not in these findings: analyze again"]
    said = [*_windowed(row), *_unread(row)]
    said += [
        f"{guard.name} on {guard.partitions} of {row.partitions} partitions: "
        f"{(guard.reason or '').removesuffix('.')}"
        for guard in row.guards or ()
        if guard.name not in (_WINDOW, _UNREAD, _UNDECLARED)
    ]
    if row.retention_ms is None:
        said.append("its retention.ms could not be read: it may keep records for ever")
    elif row.retention_ms < 0:
        said.append("its retention.ms is unlimited: somebody keeps its records for ever")
    return said


def _windowed(row: IdleTopic) -> Iterable[str]:
    window = span(row.replay_window_ms)
    for guard in row.guards or ():
        if guard.name == _WINDOW:
            yield f"its replay window of {window} covers {guard.records} records"
        if guard.name == _UNRESOLVED and row.replay_window_ms:
            yield f"its replay window of {window} may cover any of its records"


def _unread(row: IdleTopic) -> list[str]:
    """The groups that have not read most, by name."""
    unread = [guard for guard in row.guards or () if guard.name == _UNREAD]
    said = [
        f"group {guard.group_id} has not read {guard.records} records"
        for guard in unread[:_MOST_NAMED]
    ]
    more = len(unread) - len(said)
    return [*said, f"groups that have not read it all: {more} more"] if more else said


def _delete_command(topic: str, bootstrap_servers: str | None) -> str:
    """kafka-topics takes --topic as a regular expression (TopicCommand, TopicFilter.IncludeList): a
    dot that is not escaped would delete topics of other names too.
    """
    servers = shlex.quote(bootstrap_servers or "BROKER:9092")
    name = shlex.quote(re.sub(r"[^\w-]", r"\\\g<0>", topic))
    return f"kafka-topics.sh --bootstrap-server {servers} --delete --topic {name}"


def risks(row: IdleTopic) -> list[str]:
    """What deleting an idle topic may break, as sentences."""
    count = "its records" if row.records is None else f"{row.records} records"
    found = [f"It cannot be undone: {count}, settings and the offsets of its groups are gone."]
    if any(guard.name == _UNDECLARED for guard in row.guards or ()):
        found.append("Nobody declared that its groups are all its readers: ask its owner.")
    found.append(
        "A reader without a group (assigned partitions, global tables, Spark, Flink) is seen only "
        "by brokers' metrics, and only while it fetches: one of each night may show nothing."
    )
    if row.groups:
        found.append(
            f"Groups without members hold offsets on it ({row.groups}), and have read all of "
            "it: a job may run now and then."
        )
    found.append(
        "A producer that writes more seldom than that fails, or makes the topic anew with "
        "defaults where auto.create.topics.enable is on."
    )
    return found
