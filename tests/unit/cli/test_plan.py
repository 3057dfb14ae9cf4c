"""`lowwater plan`: the request that flags describe, the file that is written, the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.core.errors import ClusterError
from dashboard.domain.model import TopicPartition
from dashboard.purge.plan import drafts
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.guards import Lift, Waive
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.targets import read_offsets_json
from tests.unit.cli.plans import a_plan

TOPIC = ["plan", "--topic", "orders", "--to", "committed"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `draft` was asked; its answer is the small plan, all guarded for topic `held`."""
    found: list[dict[str, Any]] = []

    def draft(_settings: Any, root: str, cluster: Any, request: PlanRequest, **more: Any) -> Plan:
        found.append({"root": root, "cluster": cluster, "request": request, **more})
        return a_plan(all_guarded="held" in request.topics)

    monkeypatch.setattr(drafts, "draft", draft)
    return found


def _printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_flags_become_the_request_and_the_plan_is_written(
    asked: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOWWATER_OPERATOR", "alice")
    words = [
        "--topic", "clicks", "--groups", "a, b", "--waive", "old=gone", "--override",
        "over-limit:a=fine", "--cluster", "prod", "--data", "d", "--bootstrap-server", "h:2",
    ]  # fmt: skip
    assert main([*TOPIC, *words, "--out", "plan.json", "--json"]) == 0
    (call,) = asked
    request = call["request"]
    assert (call["root"], call["cluster"]) == ("d", "prod")
    assert call["client_overrides"] == {"bootstrap.servers": "h:2"}
    assert (request.topics, request.groups) == (("orders", "clicks"), ("a", "b"))
    assert (request.waive, request.override) == (
        (Waive("old", "gone"),),
        (Lift("over-limit", "fine", "a"),),
    )
    assert (request.by, request.target.text) == ("alice", "committed")
    view = _printed(capsys)
    written = Plan.from_json_text(Path("plan.json").read_text(), "plan.json")
    assert (written.plan_id, written.sha256) == (view["plan_id"], view["sha256"])
    assert {"confirmation", "expires_at", "partitions", "groups"} <= set(view)


@pytest.mark.parametrize(
    ("words", "archive"),
    [
        (["--archive", "s3://bucket/own"], "s3://bucket/own"),
        (["--archive"], "s3://bucket/kept"),
        ([], None),
    ],
)
def test_the_records_are_kept_where_it_is_named_or_where_the_settings_say(
    asked: list[dict[str, Any]], words: list[str], archive: str | None
) -> None:
    Path("lowwater.toml").write_text('[archive]\nurl = "s3://bucket/kept"\n')
    assert main([*TOPIC, *words, "--out", "plan.json"]) == 0
    assert asked[0]["request"].archive == archive


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--archive"], "ARCHIVE_NOT_NAMED"),
        (["--archive", "s3://me:word@bucket"], "ARCHIVE_URL_INVALID"),
        (["--archive", "kept", "--offsets-out", "o.json"], "USAGE"),
    ],
)
def test_no_place_a_secret_or_a_tool_that_keeps_nothing_is_refused(
    asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], words: list[str], code: str
) -> None:
    assert main([*TOPIC, *words, "--out", "plan.json", "--json"]) == 1
    assert _printed(capsys)["error"]["code"] == code
    assert (asked, Path("plan.json").exists()) == ([], False)


def test_an_offsets_file_names_topics_and_offsets(
    asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("o.json").write_text(
        '{"partitions":[{"topic":"orders","partition":0,"offset":5}],"version":1}'
    )
    assert main(["plan", "--from-file", "o.json", "--out", "plan.json"]) == 0
    assert asked[0]["request"].target.offsets == {TopicPartition("orders", 0): 5}
    assert "written to plan.json" in capsys.readouterr().out


def test_free_targets_are_written_for_kafkas_tool_and_read_back(
    asked: list[dict[str, Any]],
) -> None:
    words = [*TOPIC, "--out", "plan.json", "--offsets-out", "o.json"]
    assert main(words) == 0
    free = a_plan().free_partitions
    assert read_offsets_json(Path("o.json").read_text(), "o.json").offsets == {
        p.key: p.target_offset for p in free
    }


def test_while_every_purge_is_switched_off_a_plan_is_written_and_no_targets(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWWATER_READ_ONLY", "true")
    words = [*TOPIC, "--out", "plan.json"]
    assert main([*words, "--offsets-out", "o.json"]) == 3
    assert not Path("o.json").exists()
    assert main(words) == 0


def test_with_no_free_partition_there_are_no_offsets_to_write(asked: list[dict[str, Any]]) -> None:
    words = ["plan", "--topic", "held", "--to", "committed", "--out", "p.json"]
    assert main([*words, "--offsets-out", "o.json"]) == 3
    assert not Path("o.json").exists()


@pytest.mark.parametrize(
    ("topic", "variable"), [("held", None), ("orders", ("LOWWATER_READ_ONLY", "true"))]
)
def test_a_refused_plan_leaves_no_earlier_targets_for_kafkas_tool(
    asked: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    topic: str,
    variable: tuple[str, str] | None,
) -> None:
    Path("o.json").write_text(a_plan().offsets_json())  # yesterday's, when all of it was free
    if variable:
        monkeypatch.setenv(*variable)
    words = ["plan", "--topic", topic, "--to", "committed", "--out", "p.json"]
    assert main([*words, "--offsets-out", "o.json"]) == 3
    assert not Path("o.json").exists()


def test_targets_do_not_take_the_place_of_a_file_that_is_read(
    asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("o.json").write_text(text := a_plan().offsets_json())
    words = ["plan", "--from-file", "o.json", "--out", "plan.json", "--offsets-out", "./o.json"]
    assert main([*words, "--json"]) == 1
    error = _printed(capsys)["error"]
    assert (error["code"], "--from-file" in error["message"]) == ("USAGE", True)
    assert (asked, Path("o.json").read_text()) == ([], text)


def test_targets_do_not_take_the_place_of_their_plan(asked: list[dict[str, Any]]) -> None:
    for same in ("p.json", "./p.json", str(Path("p.json").resolve())):  # which is not there yet
        assert main([*TOPIC, "--out", "p.json", "--offsets-out", same]) == 1
    assert (asked, Path("p.json").exists()) == ([], False)


def test_with_no_free_partition_the_plan_is_shown_and_the_exit_is_3(
    asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["plan", "--topic", "held", "--to", "committed", "--out", "plan.json"]
    assert main([*words, "--json"]) == 3
    view = _printed(capsys)
    assert view["error"]["code"] == "NOTHING_FREE"
    assert {g["name"] for p in view["partitions"] for g in p["guards"]} == {"under-replicated"}
    assert Path("plan.json").exists()
    assert main(words) == 3
    captured = capsys.readouterr()
    assert "--confirm" not in captured.out
    assert "guards block all 3 partitions" in captured.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["plan", "--out", "p"], "USAGE"),
        (["plan", "--topic", "t", "--out", "p"], "USAGE"),
        (["plan", "--topic", "t", "--to", "committed"], "USAGE"),
        (["plan", "--from-file", "o.json", "--topic", "t", "--out", "p"], "USAGE"),
        (["plan", "--from-file", "none.json", "--out", "p"], "FILE_UNREADABLE"),
        (["plan", "--topic", "t", "--to", "yesterday", "--out", "p"], "TARGET_INVALID"),
        (["plan", "--topic", "t", "--to", "offset:-5", "--out", "p"], "TARGET_INVALID"),
        (
            ["plan", "--topic", "t", "--to", "timestamp:2026-03-01T04:00:00", "--out", "p"],
            "TIME_INVALID",
        ),
        ([*TOPIC, "--out", "none/plan.json"], "FILE_UNWRITABLE"),
        ([*TOPIC, "--out", "."], "FILE_UNWRITABLE"),
    ],
)
def test_bad_flags_are_named_and_no_broker_is_asked(
    asked: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: str,
) -> None:
    assert main([*words, "--json"]) == 1
    assert _printed(capsys)["error"]["code"] == code
    assert asked == []
    assert list(Path().glob("p*")) == []


def test_a_failed_plan_leaves_the_old_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def draft(*_words: Any, **_more: Any) -> Plan:
        raise ClusterError("h:1 could not be reached", "Start it.")

    monkeypatch.setattr(drafts, "draft", draft)
    Path("plan.json").write_text("the old one")
    assert main([*TOPIC, "--out", "plan.json", "--json"]) == 4
    assert Path("plan.json").read_text() == "the old one"


def test_a_store_without_the_cluster_says_collect_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*TOPIC, "--out", "plan.json", "--data", "empty", "--json"]) == 1
    assert _printed(capsys)["error"]["code"] == "NO_SNAPSHOT"
    assert not Path("plan.json").exists()
