"""How the completeness of a snapshot is told."""

from __future__ import annotations

from typing import Any

from analytics.metrics.quality import with_metrics
from dashboard.store.tables import SNAPSHOT_TABLES, build
from tests.support.one_bucket import quality


def told(incomplete: tuple[str, ...] = (), **tables: dict[str, Any]) -> dict[Any, dict[str, Any]]:
    names = ("brokers", "partitions", "replicas", "log_dirs", "groups", "group_offsets")
    read = {name: build(SNAPSHOT_TABLES[name], tables.get(name, {})) for name in names}
    rows = quality(read, incomplete).to_pylist()
    return {(row["table"], row["broker_id"]): row for row in rows}


def test_a_broker_that_did_not_answer_is_named_with_its_error() -> None:
    found = told(
        brokers={"broker_id": [1, 2], "error": [None, "no answer within 10 s"]},
        partitions={"topic_no": [0, 0], "partition": [0, 1], "replicas": [[1, 2], [2, 3]]},
        replicas={"broker_id": [1], "log_dir": ["/d"], "size_bytes": [5], "log_end_offset": [None],
                  "topic_no": [0], "partition": [0]},
        log_dirs={"broker_id": [1], "log_dir": ["/d"]},
    )  # fmt: skip
    assert found["replicas", 1]["complete"] is True
    assert found["replicas", 1]["reason"] is None
    assert found["replica_offsets", 1]["reason"] == "1 of 1 missing, no error was given"
    silent = found["replicas", 2]
    assert (silent["rows"], silent["expected_rows"]) == (0, 2)
    assert silent["reason"] == "no answer within 10 s"
    assert found["replicas", 3]["expected_rows"] == 1, "assigned, though metadata does not list it"
    assert found["log_dirs", 1]["complete"] is True
    assert found["log_dirs", 2]["reason"] == "no answer within 10 s"


def test_what_no_assignment_names_makes_up_for_no_replica_that_is_missing() -> None:
    found = told(
        brokers={"broker_id": [1]},
        partitions={"topic_no": [0, 0], "partition": [0, 1], "replicas": [[1], [2]]},
        replicas={"broker_id": [1], "log_dir": ["/d"], "topic_no": [0], "partition": [1],
                  "size_bytes": [5], "error": ["NOT_IN_METADATA"]},
    )  # fmt: skip
    row = found["replicas", 1]
    assert (row["rows"], row["expected_rows"], row["complete"]) == (0, 1, False)
    assert row["reason"] == "1 of 1 missing, no error was given"


def test_doubt_about_the_group_list_makes_it_incomplete() -> None:
    found = told(
        ("broker 2 did not answer", "no DESCRIBE"),
        groups={"group_id": ["g"]},
        group_offsets={"group_id": ["g", "h"], "error": [None, "UNSTABLE_OFFSET_COMMIT"]},
    )
    groups, offsets = found["groups", None], found["group_offsets", None]
    assert (groups["rows"], groups["complete"]) == (1, False)
    assert groups["reason"] == "broker 2 did not answer; no DESCRIBE"
    assert (offsets["rows"], offsets["expected_rows"], offsets["complete"]) == (1, 2, False)
    assert offsets["reason"] == "UNSTABLE_OFFSET_COMMIT"


def test_brokers_that_were_asked_for_their_metrics_have_a_row_of_what_came() -> None:
    nobody = quality({name: build(SNAPSHOT_TABLES[name], {}) for name in SNAPSHOT_TABLES}, ())
    metrics = [
        {"broker_id": 1, "answered": True, "error": None, "missing": []},
        {"broker_id": 2, "answered": True, "error": None, "missing": ["RequestMetrics"]},
        {"broker_id": 3, "answered": False, "error": "METRICS_TOO_SLOW: …", "missing": []},
        {"broker_id": 4, "answered": True, "error": None},  # of an older release
    ]
    assert with_metrics(nobody, ()).equals(nobody)
    rows = with_metrics(nobody, metrics).slice(nobody.num_rows).to_pylist()
    assert {row["table"] for row in rows} == {"broker_metrics"}
    assert [(r["broker_id"], r["rows"], r["complete"], r["reason"]) for r in rows] == [
        (1, 3, True, None),
        (2, 2, False, "not in its metrics: RequestMetrics"),
        (3, 0, False, "METRICS_TOO_SLOW: …"),
        (4, 3, True, None),
    ]
