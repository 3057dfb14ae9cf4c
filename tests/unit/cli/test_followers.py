"""`lowwater followers`: all followers as JSON, the slow ones and their causes as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from tests.support import sample_store
from tests.unit.cli.printed import answer

_CONTRACT = {
    "broker_id", "topic", "partition", "lag_records", "lag_bytes", "lag_seconds", "log_start_lag",
    "trend", "slow", "cause",
}  # fmt: skip


def followers(data: str, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    return answer(capsys, "followers", "--data", data, *flags)


def test_json_has_every_follower_furthest_first(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = followers(data, capsys)
    assert all(row.keys() >= _CONTRACT for row in found["rows"])
    assert len(found["rows"]) == found["matching_rows"] == found["followers"] == 120
    assert [row["slow"] for row in found["rows"]] == [True] * 12 + [False] * 108
    lags = [row["lag_seconds"] for row in found["rows"]]
    assert lags == sorted(lags, reverse=True)
    assert len(followers(data, capsys, "--slow")["rows"]) == found["slow"] == 12
    some = followers(data, capsys, "--topic", "orders", "--limit", "2")
    assert [(row["topic"], row["partition"]) for row in some["rows"]] == [
        ("orders", 4),
        ("orders", 3),
    ]


def test_people_read_who_is_slow_and_why(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["followers", "--data", data]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "12 of 120 followers slow"
    assert "broker 3 is slow: 12 of 41 replicas, 21 s behind, falling 3 s a minute" in lines[1]
    assert "falling behind  broker" in lines[4]
    assert main(["followers", "--data", data, "--topic", "payments"]) == 0
    assert capsys.readouterr().out == "8 followers, none of them slow\n"
    assert main(["followers", "--data", data, "--limit", "0", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "USAGE"


def test_a_broker_that_does_not_answer_is_unknown_never_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_store.write(tmp_path, "broker-missing")
    assert main(["followers", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "broker 3 does not answer: 41 replicas" in out
    assert "unknown" in out.splitlines()[-1] and "no answer" in out.splitlines()[-1]
