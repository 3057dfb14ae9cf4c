"""When a topic counts as idle, and what is offered then."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.domain.system_topics import kind_of, tool
from dashboard.topics.idle import (
    IdleTopic,
    WantedBy,
    as_csv,
    headline,
    idle,
    not_proposed,
    risks,
)

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=30)
QUIET: dict[str, Any] = {
    "topic": "old.orders-2", "kind": "ordinary", "taken_at": NOW, "partitions": 3,
    "unread_partitions": 0, "quiet_since": LONG_AGO, "last_moved_at": None, "groups": 0,
    "reading_groups": [], "share_groups": [], "last_commit_at": None, "bytes_out_per_hour": None,
    "readers_unknown": None, "evidence": ["offsets", "commits"], "size_bytes": 5,
    "records": 40, "retention_ms": 604_800_000, "replay_window_ms": 0, "guards": [],
}  # fmt: skip


def quiet(**facts: Any) -> IdleTopic:
    return IdleTopic(**{**QUIET, **facts})


def verdict(days: int = 7, **facts: Any) -> str:
    return quiet(**facts).judged(days).verdict


def reason(days: int = 7, **facts: Any) -> str:
    return quiet(**facts).judged(days).reason


def line(row: IdleTopic, servers: str = "b:1", unusable: str = "") -> str | None:
    found = idle([row], 7, unusable)
    return found.delete_command(found.rows[0], servers)


def test_quiet_for_long_enough_and_read_by_nobody_is_idle() -> None:
    assert verdict() == "idle"
    assert reason().endswith("no group has an offset on it")
    assert verdict(groups=2) == "idle"
    assert "2 groups hold offsets on it, none was seen to move" in reason(groups=2)
    assert verdict(days=31) == "unknown"
    assert "31 days are asked for" in reason(days=31)


def test_what_reads_or_writes_it_is_named() -> None:
    assert verdict(reading_groups=["a", "b"]) == "read"
    assert "group a and 1 more" in reason(reading_groups=["a", "b"])
    assert (verdict(share_groups=["sg"]), reason(share_groups=["sg"])) == (
        "read", "share group sg has a start offset on it",
    )  # fmt: skip
    assert verdict(bytes_out_per_hour=1) == "read"
    assert verdict(bytes_out_per_hour=0) == "idle"
    assert verdict(last_commit_at=NOW - timedelta(days=2)) == "read"
    assert verdict(last_commit_at=LONG_AGO) == "idle"
    recently = NOW - timedelta(days=2)
    assert verdict(last_moved_at=recently, quiet_since=recently) == "written"
    assert verdict(1, last_moved_at=recently, quiet_since=recently) == "idle"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"unread_partitions": 1}, "log ends of 1 of 3 partitions"),
        ({"quiet_since": None}, "not read, by a clock that was wrong, or while a replica was out"),
        ({"quiet_since": NOW - timedelta(days=6)}, "not known for long enough"),
        ({"readers_unknown": "no DESCRIBE"}, "who reads it is not known: no DESCRIBE"),
    ],
)
def test_unknown_is_never_idle(facts: dict[str, Any], said: str) -> None:
    assert verdict(**facts) == "unknown"
    assert said in reason(**facts)


def test_rows_are_judged_for_the_days_that_are_asked_for_and_idle_ones_come_first() -> None:
    rows = [
        quiet(topic="small", size_bytes=1),
        quiet(topic="alive", reading_groups=["g"]),
        quiet(topic="unmeasured", size_bytes=None),
        quiet(topic="large", size_bytes=9),
    ]
    found = idle(rows, 7, "")
    assert [row.topic for row in found.rows] == ["large", "small", "unmeasured", "alive"]
    kept = quiet(topic="kept", size_bytes=99, retention_ms=-1)
    assert [row.topic for row in idle([kept, *rows], 7, "").rows][2:4] == ["unmeasured", "kept"]
    assert not idle(rows, 60, "").of("idle")


def test_only_ordinary_idle_topics_get_a_line_and_it_names_no_other_topic() -> None:
    said = line(quiet(), "b1:9092,b2:9092")
    assert said is not None
    words = shlex.split(said)
    assert words[:4] == ["kafka-topics.sh", "--bootstrap-server", "b1:9092,b2:9092", "--delete"]
    assert re.fullmatch(words[-1], "old.orders-2")
    assert not re.fullmatch(words[-1], "old-orders-2")
    for kind in ("compacted", "dead-letter", "retry", "streams", "tool", None):
        assert line(quiet(kind=kind)) is None
        assert not_proposed(quiet(kind=kind))
    assert line(quiet(quiet_since=None)) is None


def test_findings_that_do_not_tell_of_now_propose_nothing() -> None:
    found = idle([quiet()], 7, "they are 60 days old")
    assert (line(quiet(), unusable="they are 60 days old"), found.deletable) == (None, [])
    assert found.not_proposed(found.rows[0]) == "they are 60 days old"
    assert headline(found) == "1 topic idle for 7 days or more; not proposed: 1."


def guard(name: str, group_id: str | None = None, records: int | None = None) -> WantedBy:
    return WantedBy(name, group_id, 2, records, "Told.")


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"guards": [guard("unread-by-group", group_id="g", records=30)]},
         "group g has not read 30 records"),
        ({"guards": [guard("replay-window", records=9)], "replay_window_ms": 31_536_000_000},
         "its replay window of 365 d covers 9 records"),
        ({"guards": [guard("target-unresolved")], "replay_window_ms": 31_536_000_000},
         "its replay window of 365 d may cover any of its records; target-unresolved on 2 of 3"),
        ({"guards": [guard("share-group")]}, "share-group on 2 of 3 partitions: Told"),
        ({"guards": [guard("beyond-last-stable-offset")]}, "beyond-last-stable-offset"),
        ({"retention_ms": -1}, "retention.ms is unlimited"),
        ({"retention_ms": None}, "retention.ms could not be read"),
        ({"guards": None}, "analyze again"),
    ],
)  # fmt: skip
def test_no_line_where_somebody_may_still_want_its_records(
    facts: dict[str, Any], said: str
) -> None:
    row = quiet(**facts)
    why = not_proposed(row)
    assert why is not None and said in why and not why.endswith(".")
    assert line(row) is None
    assert headline(idle([row], 7, "")) == "1 topic idle for 7 days or more; not proposed: 1."


def test_of_many_groups_that_have_not_read_it_some_are_named() -> None:
    unread = [guard("unread-by-group", group_id=f"g{n}", records=9 - n) for n in range(5)]
    why = not_proposed(quiet(guards=unread))
    assert why is not None and "group g2 has not" in why and why.endswith("read it all: 2 more")


def test_risks_tell_what_nobody_has_seen() -> None:
    assert any("without a group" in said for said in risks(quiet()))
    measured = quiet(evidence=["offsets", "commits", "metrics"])
    assert any("without a group" in said for said in risks(measured)), "it may read at night"
    assert any("hold offsets" in said for said in risks(quiet(groups=1)))
    assert "40 records" in risks(quiet())[0]
    undeclared = quiet(guards=[guard("readers-undeclared")])
    assert not_proposed(undeclared) is None and "Nobody declared" in risks(undeclared)[1]


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("orders", "ordinary"), ("orders.DLT", "dead-letter"), ("dlq-orders", "dead-letter"),
        ("orders-dead-letter-queue", "dead-letter"), ("orders-errors", "dead-letter"),
        ("orders-retry-1000", "retry"), ("retry.orders", "retry"), ("retryable", "retry"),
        ("app-store-changelog", "streams"), ("app-KTABLE-0007-repartition", "streams"),
        ("app-FK-subscription-registration-0006-topic", "streams"), ("errors-of-ann", "ordinary"),
        ("saddler", "ordinary"), ("country-retryer", "ordinary"),
    ],
)  # fmt: skip
def test_kinds_are_told_apart_by_name(topic: str, kind: str) -> None:
    assert kind_of(topic, is_system=False, cleanup_policy="delete") == kind


def test_tools_and_compacted_topics_are_told_apart() -> None:
    assert kind_of("connect-offsets", is_system=True, cleanup_policy="compact") == "tool"
    assert tool("connect-offsets", "tool") == "Kafka Connect"
    assert tool("a-changelog", "streams") == "Kafka Streams"
    assert tool("orders", "ordinary") is None
    assert kind_of("prices", is_system=False, cleanup_policy="compact,delete") == "compacted"
    assert kind_of("prices", is_system=False, cleanup_policy=None) is None


def test_a_line_of_the_csv_has_the_verdict_and_its_reason() -> None:
    head, line = as_csv(idle([quiet()], 7, "").rows).splitlines()
    assert head.startswith('"topic","verdict","reason"')
    assert line.startswith('"old.orders-2","idle","') and ',5,"2026-01-30T04:00:00' in line
