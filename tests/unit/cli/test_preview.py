"""`lowwater preview`: a plan file as an operator reads it; a damaged or changed one is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.domain.model import Guard
from dashboard.purge.forecast import forecast as forecasts
from dashboard.purge.forecast.forecast import Forecast, judge
from dashboard.purge.plan.plan import Declared, Plan
from dashboard.safety.unseen_readers import TopicReading
from dashboard.settings.settings import PurgeSettings
from tests.unit.cli.plans import a_plan
from tests.unit.purge.forecasts import reading


def test_the_preview_has_the_keys_of_the_contract(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = a_plan()
    Path("plan.json").write_text(plan.to_json_text())
    assert main(["preview", "plan.json", "--json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert (view["plan_id"], view["sha256"]) == (plan.plan_id, plan.sha256)
    assert view["confirmation"] == "purge orders on prod"
    first = view["partitions"][0]
    contract = (
        "topic partition log_start_offset target_offset high_watermark records bytes_at_once guards"
    )
    assert set(contract.split()) <= set(first)
    assert (first["records"], first["bytes_at_once"]) == (500, 2048)
    assert view["groups"][0]["group_id"] == "billing"


def test_people_read_totals_guards_losses_and_the_sentence(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.json").write_text(a_plan().to_json_text())
    assert main(["preview", "plan.json"]) == 0
    out = capsys.readouterr().out
    assert "2 of 3 partitions are free: at most 1000 records, 4.0 KiB at once" in out
    assert "4.0 KiB at once (2.0 KiB to 6.0 KiB), 1.0 KiB later · 2 history" in out
    assert "guard under-replicated (1 partitions): one of three is gone" in out
    assert "group billing would lose 200 records if it resets to earliest" in out
    assert "waived old by alice: gone since May" in out
    assert out.splitlines()[-1] == 'confirm with: --confirm "purge orders on prod"'


def test_the_guard_that_blocks_most_is_named_first_as_the_page_has_it(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = a_plan(all_guarded=True)
    rare = Guard("leader-log-dir-move", "it moves", "Wait.")
    partitions = (replace(plan.partitions[0], guards=(rare,)), *plan.partitions[1:])
    Path("plan.json").write_text(replace(plan, partitions=partitions).to_json_text())
    assert main(["preview", "plan.json"]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("guard ")]
    assert [line.split(":")[0] for line in said] == [
        "guard under-replicated (2 partitions)", "guard leader-log-dir-move (1 partitions)",
    ]  # fmt: skip


def test_people_read_who_declared_readers_and_where_unseen_ones_were_not_looked_for(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = Declared("orders", "shop", "groups", 0, "alice", "2026-03-01", "asked every team")
    readings = (
        TopicReading("orders"),
        TopicReading("payments"),
        TopicReading("seen", 10, 10, 1000, 1, None),
        TopicReading("half", 10, 10, 1000, 1, "broker 2 has none"),
    )
    plan = replace(a_plan(), declarations=(declared,), unseen_readers=readings)
    Path("plan.json").write_text(plan.to_json_text())
    assert main(["preview", "plan.json"]) == 0
    out = capsys.readouterr().out
    assert "Readers of orders declared by alice at 2026-03-01: asked every team" in out
    assert "Unseen readers of 2 topics: not measured (no broker metrics are kept)" in out
    assert "Unseen readers of half: partly measured (broker 2 has none)" in out
    assert "of seen" not in out


def test_an_expired_plan_says_so(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.json").write_text(a_plan(hours_ago=5).to_json_text())
    assert main(["preview", "plan.json"]) == 0
    assert "EXPIRED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "exit_code", "code"),
    [
        (None, 1, "FILE_UNREADABLE"),
        (b"\xff\xfe", 1, "FILE_UNREADABLE"),
        (b"", 1, "PLAN_INVALID"),
        (b"[]", 1, "PLAN_INVALID"),
        (b'{"version": 1}', 3, "PLAN_EDITED"),
    ],
)
def test_what_is_no_plan_is_named(
    alone: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
    exit_code: int,
    code: str,
) -> None:
    if content is not None:
        Path("plan.json").write_bytes(content)
    assert main(["preview", "plan.json", "--json"]) == exit_code
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == code
    assert "plan.json" in error["message"]


def test_a_plan_edited_by_hand_is_refused(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = a_plan().to_json_text().replace('"target_offset":600', '"target_offset":900')
    Path("plan.json").write_text(text)
    assert main(["preview", "plan.json", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "PLAN_EDITED"


def test_live_adds_who_would_hold_it_up_and_each_mode(
    alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Plan] = []

    def foreseen(_settings: object, _root: str, _cluster: str, plan: Plan, **_: object) -> Forecast:
        asked.append(plan)
        return judge(reading({1: 100, 2: 100, 3: "BROKER_UNREACHABLE"}), {}, PurgeSettings())

    monkeypatch.setattr(forecasts, "forecast", foreseen)
    Path("plan.json").write_text(a_plan().to_json_text())
    assert main(["preview", "plan.json", "--live", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["forecast"]
    assert found["held_up_by"][0]["broker_id"] == 3
    assert found["timing_out"]["partitions"] == 1

    assert main(["preview", "plan.json", "--live"]) == 0
    out = capsys.readouterr().out
    assert "Broker 3 does not answer; waiting for all replicas would time out" in out
    assert "wait-all: 1 would time out after 30 s." in out
    assert "leader-only: Broker 1 speaks v2:" in out
    assert len(asked) == 2


def test_live_without_a_known_cluster_says_so(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.json").write_text(a_plan().to_json_text())
    assert main(["preview", "plan.json", "--live", "--json"]) == 1
    assert "code" in json.loads(capsys.readouterr().out)["error"]
