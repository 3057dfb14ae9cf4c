"""Whether a topic is idle: the rule, in one place for analysis, command line, page and report.

Nothing here deletes a topic, and nothing of ours does: it gives the line to copy.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.clock import format_time
from dashboard.sizes import binary
from dashboard.topic_kinds import COMPACTED, DEAD_LETTER, ORDINARY, RETRY, STREAMS, TOOL

IDLE, READ, WRITTEN, UNKNOWN = "idle", "read", "written", "unknown"
# What tells that nobody writes or reads: log ends, groups' offsets and members, bytes fetched.
OFFSETS, COMMITS, METRICS = "offsets", "commits", "metrics"
_ORDER = (IDLE, UNKNOWN, READ, WRITTEN)
_APART = {
    COMPACTED: "compacted: readers may load its newest values at any start",
    DEAD_LETTER: "dead letters: quiet while nothing fails",
    RETRY: "retries: quiet while nothing fails",
    STREAMS: "Kafka Streams' own: its application makes and deletes it",
    TOOL: "state of a tool: never to be deleted by hand",
    None: "its cleanup policy could not be read",
}


@dataclass(frozen=True, slots=True)
class Idle:
    """Rows of `idle_topics` judged for so many days: idle ones first, largest first."""

    rows: tuple[dict[str, Any], ...]
    days: int

    def of(self, verdict: str) -> list[dict[str, Any]]:
        """The rows of one verdict."""
        return [row for row in self.rows if row["verdict"] == verdict]

    @property
    def deletable(self) -> list[dict[str, Any]]:
        """Idle topics whose deletion may be offered."""
        return [row for row in self.of(IDLE) if row["kind"] == ORDINARY]


def idle(rows: Iterable[Mapping[str, Any]], days: int) -> Idle:
    """The rows of an `idle_topics` table, judged for other days than the analysis took."""
    found = [{**row, **judged(row, days, row["taken_at"])} for row in rows]
    found.sort(key=lambda r: (_ORDER.index(r["verdict"]), -(r["size_bytes"] or 0), r["topic"]))
    return Idle(tuple(found), days)


def judged(row: Mapping[str, Any], days: int, taken_at: datetime) -> dict[str, Any]:
    """idle_days, verdict and reason of a row of `idle_topics`, whose snapshot was taken then.

    Who reads it is known by what was seen; that nobody does only if everything could be seen.
    """
    since = taken_at - timedelta(days=days)
    verdict, reason = _read(row, since) or _quiet(row, days, since) or (IDLE, _idle(row))
    return {"idle_days": days, "verdict": verdict, "reason": reason}


def _read(row: Mapping[str, Any], since: datetime) -> tuple[str, str] | None:
    groups: Sequence[str] = row["reading_groups"] or ()
    if groups:
        others = f" and {len(groups) - 1} more" if len(groups) > 1 else ""
        return READ, f"members of group {groups[0]}{others} read it"
    if (row["bytes_out_per_hour"] or 0) > 0:
        return READ, f"clients fetch {row['bytes_out_per_hour']} bytes of it an hour"
    if row["last_commit_at"] is not None and row["last_commit_at"] > since:
        return READ, f"a group committed by {format_time(row['last_commit_at'])}"
    return None


def _quiet(row: Mapping[str, Any], days: int, since: datetime) -> tuple[str, str] | None:
    """Why nobody can say that it was quiet for so long; None: it was."""
    moved, quiet = row["last_moved_at"], row["quiet_since"]
    if moved is not None and moved > since:
        return WRITTEN, f"written to by {format_time(moved)}"
    if row["unread_partitions"] or quiet is None:
        return UNKNOWN, (
            f"the log ends of {row['unread_partitions']} of {row['partitions']} partitions were "
            "not read in the newest snapshot, or by a clock that was wrong"
        )
    if quiet > since:
        return UNKNOWN, (
            f"not known for long enough: since {format_time(quiet)}, {_days(days)} are asked for"
        )
    if row["readers_unknown"] is not None:
        return UNKNOWN, f"who reads it is not known: {row['readers_unknown']}"
    return None


def _idle(row: Mapping[str, Any]) -> str:
    who = "no group has an offset on it"
    if row["groups"]:
        held = "1 group holds an offset" if row["groups"] == 1 else (
            f"{row['groups']} groups hold offsets"
        )  # fmt: skip
        last = row["last_commit_at"]
        moved = f"none moved since {format_time(last)}" if last else "none was seen to move"
        who = f"{held} on it, {moved}, and none has members"
    return f"no write since {format_time(row['quiet_since'])}; {who}"


def _days(days: int) -> str:
    return "1 day" if days == 1 else f"{days} days"


def headline(found: Idle) -> str:
    """How many topics are idle, what deleting the ordinary ones would give back, what is not known.

    Bytes are those of all replicas; unmeasured ones are left out and said to be.
    """
    idle_rows, offered = found.of(IDLE), found.deletable
    said = f"{_topics(len(idle_rows))} idle for {_days(found.days)} or more"
    if offered:
        known = [row["size_bytes"] for row in offered if row["size_bytes"] is not None]
        said += f"; {_deleting(len(offered))} give back {binary(sum(known))}" if known else ""
        if len(known) < len(offered):
            said += f"; of {len(offered) - len(known)} the bytes are not known"
    apart_count = len(idle_rows) - len(offered)
    said += f"; {apart_count} of them told apart and not proposed" if apart_count else ""
    unknown = len(found.of(UNKNOWN))
    return said + (f"; of {_topics(unknown)} it is not known" if unknown else "") + "."


def _topics(count: int) -> str:
    return "1 topic" if count == 1 else f"{count} topics"


def _deleting(count: int) -> str:
    return "deleting the ordinary one would" if count == 1 else (
        f"deleting the {count} ordinary ones would"
    )  # fmt: skip


def sure(row: Mapping[str, Any]) -> str:
    """By which evidence, as words: `offsets, commits`."""
    return ", ".join(row["evidence"] or ()) or "none"


def apart(row: Mapping[str, Any]) -> str | None:
    """Why the deletion of an idle topic is not offered; None: it is."""
    return None if row["kind"] == ORDINARY else _APART[row["kind"]]


def delete_command(row: Mapping[str, Any], bootstrap_servers: str | None) -> str | None:
    """The line that deletes an idle ordinary topic, to be copied; None for any other.

    kafka-topics takes --topic as a regular expression (TopicCommand, TopicFilter.IncludeList): a
    dot that is not escaped would delete topics of other names too.
    """
    if row["verdict"] != IDLE or apart(row) is not None:
        return None
    servers = shlex.quote(bootstrap_servers or "BROKER:9092")
    name = shlex.quote(re.sub(r"[^\w-]", r"\\\g<0>", row["topic"]))
    return f"kafka-topics.sh --bootstrap-server {servers} --delete --topic {name}"


def risks(row: Mapping[str, Any]) -> list[str]:
    """What deleting an idle topic may break, as sentences."""
    found = ["It cannot be undone: records, settings and the offsets of its groups are gone."]
    found.append(
        "A reader without a group (assigned partitions, global tables, Spark, Flink) is seen only "
        "by brokers' metrics, and only while it fetches: one of each night may show nothing."
    )
    if row["groups"]:
        found.append("Groups without members hold offsets on it: a job may run now and then.")
    found.append(
        "A producer that writes more seldom than that fails, or makes the topic anew with "
        "defaults where auto.create.topics.enable is on."
    )
    return found
