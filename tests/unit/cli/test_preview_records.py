"""`lowwater preview --records`: what it asks for, shows and refuses; values only when asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import LookedAt
from dashboard.purge.evidence import look as looking
from dashboard.purge.evidence.look import LookRequest
from tests.support.records import looked_at
from tests.unit.cli.plans import a_plan, known_cluster

Found = Callable[[LookedAt], None]


@pytest.fixture
def asked(alone: Path, monkeypatch: pytest.MonkeyPatch) -> list[LookRequest]:
    """What was asked for; a plan lies in plan.json, and each partition has three records."""
    Path("plan.json").write_text(a_plan().to_json_text())
    known_cluster(alone)
    requests: list[LookRequest] = []

    def found(*words: Any, **_: object) -> tuple[LookedAt, ...]:
        requests.append(words[3])
        row = looked_at(values=words[3].values)
        return tuple(replace(row, partition=key.partition) for key in sorted(words[3].targets))

    monkeypatch.setattr(looking, "look", found)
    return requests


def preview(*words: str) -> int:
    return main(["preview", "plan.json", "--data", "data", *words])


def test_programs_get_the_records_of_each_partition(
    asked: list[LookRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    assert preview("--records", "3", "--json") == 0
    view = json.loads(capsys.readouterr().out)
    assert view["confirmation"] == "purge orders on prod"
    assert [(row["topic"], row["partition"]) for row in view["looked_at"]] == [
        ("orders", 0), ("orders", 1), ("orders", 2),
    ]  # fmt: skip
    first = view["looked_at"][0]["first"]
    assert set(first) == {
        "offset", "time", "timestamp_ms", "time_type", "size_bytes", "key", "value", "headers",
    }  # fmt: skip
    assert first["value"] == {"bytes": 10}
    (request,) = asked
    assert (request.sampled, request.values, request.topic_ids) == (3, False, {"orders": "id"})


def test_people_see_a_table_a_partition_before_the_sentence(
    asked: list[LookRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--records", "1", "--of", "orders-1", "--values", "json")
    assert preview(*words) == 0
    out = capsys.readouterr().out
    assert "orders-1: records from 100 to below 600" in out
    assert '{"a":1.0}' in out and "0xff00" in out
    assert "2 more partitions not looked at: name them with --of" in out
    assert out.splitlines()[-1] == 'confirm with: --confirm "purge orders on prod"'
    assert "\x1b" not in out and "\u202e" not in out
    assert [set(request.targets) for request in asked] == [{TopicPartition("orders", 1)}]


def test_without_the_flag_nothing_is_read(
    asked: list[LookRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    assert preview("--json") == 0
    assert "looked_at" not in json.loads(capsys.readouterr().out)
    assert asked == []


def test_where_no_partition_can_be_read_the_exit_code_says_so(
    asked: list[LookRequest], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "User:eve has no READ on topic orders: kafka-acls …"
    row = LookedAt("orders", 0, 1, 600, error="TOPIC_AUTHORIZATION_FAILED", why=why)
    monkeypatch.setattr(looking, "look", lambda *_, **__: (row,))
    assert preview("--records", "1", "--json") == 4
    view = json.loads(capsys.readouterr().out)
    assert view["error"]["code"] == "RECORDS_UNREAD"
    assert why in view["error"]["message"]
    assert view["looked_at"][0]["message"] == why
    assert preview("--records", "1") == 4
    told = capsys.readouterr()
    assert f"orders-0: TOPIC_AUTHORIZATION_FAILED: {why}" in told.out
    assert "no record could be read" in told.err


@pytest.mark.parametrize(
    "words",
    [
        ("--of", "orders-0"),
        ("--values", "hex"),
        ("--records", "-1"),
        ("--records", "101"),
        ("--records", "many"),
        ("--records", "1", "--of", "orders"),
        ("--records", "1", "--of", "orders-9"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(
    asked: list[LookRequest], capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert preview(*words, "--json") == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "USAGE"
    assert asked == []
