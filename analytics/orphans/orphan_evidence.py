"""The evidence of one orphan in words: what was seen, by whom and when."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dashboard.core.clock import format_time

Row = dict[str, Any]


def told(seen: Row, today: Row | None, taken_at: datetime) -> str:
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


def _by_broker(seen: Row, today: Row, taken_at: datetime) -> str:
    if not today["answered"]:
        return f"Broker {seen['broker_id']} did not answer for that log dir."
    if seen["folder"] in ("stray", "delete"):
        return "DescribeLogDirs never lists such a folder."
    bytes_there = f"lists it with {today['told_bytes']} bytes"
    said = bytes_there if today["listed"] else "does not list it there"
    return f"DescribeLogDirs of {format_time(taken_at)} {said}."


def _by_metadata(seen: Row, today: Row, taken_at: datetime) -> str:
    topic, moment = seen["topic"], format_time(taken_at)
    if not today["has_topic"] and today["replicas"] is None and today["name_id"] is None:
        return f"The metadata of {moment} knows no topic {topic}."
    names = today["name_id"] or "no id"
    said = f"The metadata of {moment} has topic {topic} with {names}"
    if today["replicas"] is None:
        return f"{said}, without a partition {seen['partition']}."
    placed = f"{said}; partition {seen['partition']} is on brokers {_list(today['replicas'])}"
    if today["adding"] or today["removing"]:
        return (
            f"{placed}, being reassigned: adding {_list(today['adding'])}, "
            f"removing {_list(today['removing'])}."
        )
    return f"{placed}, no reassignment."


def _list(brokers: list[int] | None) -> str:
    return ", ".join(map(str, brokers or ())) or "none"
