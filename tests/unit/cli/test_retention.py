"""`lowwater retention`: what may be shorter first, its bounds, the change for each tool."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from tests.support import sample_store
from tests.unit.cli.printed import answer

_CONTRACT = {
    "topic", "owner", "verdict", "reason", "lag_low_ms", "lag_high_ms", "lag_since", "margin",
    "replay_window_ms", "retention_ms", "fits_ms", "size_bytes", "freed_low_bytes",
    "freed_likely_bytes", "freed_high_bytes", "guards", "changes",
}  # fmt: skip


def retention(data: str, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    return answer(capsys, "retention", "--data", data, *flags)


def test_json_has_what_frees_most_first_and_each_change(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = retention(data, capsys)
    assert all(row.keys() >= _CONTRACT for row in found["rows"])
    assert [(row["topic"], row["verdict"]) for row in found["rows"]] == [
        ("orders", "shorter"), ("payments", "shorter"), ("reports-old", "too-short"),
        ("skewed", "keep"), ("tiny-events", "unknown"),
    ]  # fmt: skip
    orders, *_, tiny = found["rows"]
    assert (orders["fits_ms"], found["shorter"], found["unknown"]) == (3 * 86_400_000, 2, 1)
    assert set(orders["changes"]) == {"kafka-configs", "terraform", "strimzi"}
    assert orders["changes"]["kafka-configs"].endswith("--add-config retention.ms=259200000")
    assert set(tiny["changes"].values()) == {None} and tiny["fits_ms"] is None
    assert orders["freed_low_bytes"] < orders["freed_likely_bytes"] < orders["freed_high_bytes"]
    assert [r["topic"] for r in retention(data, capsys, "--limit", "1")["rows"]] == ["orders"]


def test_people_read_lags_bounds_and_the_text_for_their_tool(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["retention", "--data", data, "--as", "strimzi", "--topic", "orders"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("By the snapshot of ")
    assert "s ago: 1 of 1 topics with declared readers may keep records for less; that " in out
    assert "    retention.ms: 259200000\n" in out and "Lowwater changes no topic" in out
    assert main(["retention", "--data", data]) == 0
    out = capsys.readouterr().out
    assert "tiny-events: not known for long enough" in out and out.count("kafka-configs.sh") == 2


@pytest.mark.parametrize(
    ("flags", "said"), [(["--as", "helm"], "--as"), (["--limit", "0"], "--limit 0")]
)
def test_bad_input_names_the_flag(
    data: str, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    assert main(["retention", "--data", data, "--json", *flags]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "USAGE" and said in error["message"] and error["next"]


def test_what_is_not_measured_or_older_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_store.write(tmp_path / "unmeasured", "unmeasured")
    assert main(["retention", "--data", str(tmp_path / "unmeasured")]) == 0
    assert "of 2 the bytes are not known" in capsys.readouterr().out
    sample_store.write(tmp_path / "older", "older")
    assert main(["retention", "--data", str(tmp_path / "older"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "NO_ANALYSIS"


def test_no_change_is_given_where_a_purge_would_be_asked_who_else_reads(
    data: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whom no group shows fetches the topic: a shorter retention deletes what they want."""
    why = "unseen-reader-suspected: consumers fetched 9 GiB"
    asked: list[str] = []

    def said(_settings: Any, _cluster: Any, topics: list[str], _now: Any) -> dict[str, str]:
        asked.extend(topics)
        return {"orders": why}

    monkeypatch.setattr("dashboard.purge.evidence.standards.said", said)
    orders, payments, *_ = retention(data, capsys)["rows"]
    assert (orders["not_proposed"], set(orders["changes"].values())) == (why, {None})
    assert payments["not_proposed"] is None and payments["changes"]["kafka-configs"]
    assert asked == ["orders", "payments"], "only where something would be proposed"
    assert main(["retention", "--data", data]) == 0
    out = capsys.readouterr().out
    assert f"orders: not proposed, {why}" in out and "--entity-name orders" not in out


def test_findings_that_are_old_say_so_and_give_no_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_store.write(tmp_path, now=utc_now() - timedelta(days=60))
    assert main(["retention", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("By the snapshot of 60 d ago: 2 of 5 topics")
    assert "No change is given: the newest findings are of " in out and "add-config" not in out
    found = retention(str(tmp_path), capsys)
    assert "lowwater analyze" in found["unusable"]
    assert {text for row in found["rows"] for text in row["changes"].values()} == {None}
