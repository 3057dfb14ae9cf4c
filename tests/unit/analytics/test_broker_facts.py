"""What brokers told of themselves: retention as Kafka reads it, answers, what they hold."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from analytics.orphans.broker_facts import Brokers
from dashboard.store.tables import SNAPSHOT_TABLES, build
from tests.support.one_bucket import brokers


def table(name: str, *rows: dict[str, Any]) -> pa.Table:
    spec = SNAPSHOT_TABLES[name]
    return build(spec, {f.name: [row.get(f.name) for row in rows] for f in spec.schema})


def facts(
    *configs: dict[str, Any], replicas: Any = (), segments: Any = (), silent: Any = ()
) -> Brokers:
    told = [{"broker_id": 1, "log_dir": "/d1"}, {"broker_id": 1, "log_dir": "/d2", "error": "x"}]
    read = {
        "brokers": table("brokers", *({"broker_id": b, "error": "no answer"} for b in silent)),
        "log_dirs": table("log_dirs", *told, {"broker_id": 2, "log_dir": "/d1"}),
        "replicas": table("replicas", *replicas),
        "configs": table("configs", *({"scope": "broker", "name": "1", **c} for c in configs)),
    }
    return brokers(read, table("segments", *segments))


def setting(key: str, value: str | None) -> dict[str, Any]:
    return {"key": key, "value": value}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"log.retention.hours": "168"}, timedelta(days=7)),
        ({"log.retention.hours": "168", "log.retention.minutes": "5"}, timedelta(minutes=5)),
        (
            {"log.retention.hours": "1", "log.retention.minutes": "5", "log.retention.ms": "9"},
            timedelta(milliseconds=9),
        ),
        ({"log.retention.hours": "168", "log.retention.ms": "-1"}, timedelta(milliseconds=-1)),
        ({"log.retention.hours": "168", "log.retention.ms": None}, timedelta(days=7)),
        ({"log.retention.ms": str(2**63 - 1)}, timedelta.max),
    ],
)
def test_the_first_retention_that_is_set_counts(
    settings: dict[str, str | None], expected: timedelta | None
) -> None:
    found = facts(*(setting(key, value) for key, value in settings.items()))
    assert found.retention(1) == expected
    assert found.retention(2) is None, "another broker's"


def test_a_topics_setting_is_none_of_a_broker_of_that_name() -> None:
    of_topic = {"scope": "topic", "key": "log.retention.hours", "value": "1"}
    assert facts(of_topic).retention(1) is None


def test_the_delay_of_delete_folders_is_the_brokers_own_or_a_minute() -> None:
    found = facts(setting("log.segment.delete.delay.ms", "90000"))
    assert found.delete_delay(1) == timedelta(seconds=90)
    assert found.delete_delay(2) == timedelta(seconds=60)
    assert found.rewrite_interval(1) == timedelta(seconds=60)
    rare = facts(setting("log.flush.offset.checkpoint.interval.ms", "300000"))
    assert rare.rewrite_interval(1) == timedelta(minutes=5)


def test_a_log_dir_answered_if_it_was_told_without_an_error_by_a_broker_that_spoke() -> None:
    found = facts(silent=[2])
    assert found.answered(1, "/d1")
    assert not found.answered(1, "/d2")
    assert not found.answered(1, "/d3")
    assert not found.answered(2, "/d1")


def test_shares_are_of_what_an_inventory_shows_else_of_what_is_listed() -> None:
    at = {"broker_id": 1, "log_dir": "/d1"}
    replicas = [{**at, "topic_no": n, "partition": 0, "size_bytes": 10} for n in range(4)]
    assert facts(replicas=replicas).share(1, 1, 5) == 0.25
    segments = [
        {**at, "directory": f"t-{n // 2}", "base_offset": n % 2, "log_bytes": 100, "kind": "live"}
        for n in range(20)
    ]
    found = facts(replicas=replicas, segments=segments)
    assert found.share(1, 1, 10) == 0.1, "ten folders of two segments"
    assert found.share(1, 1, 1000) == 0.5, "bytes weigh more"
    assert found.share(1, 0, 0) == 0
    assert found.share(9, 1, 1) is None, "nothing was told of it"
