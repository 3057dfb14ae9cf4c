"""`lowwater idle`: idle topics first, unknown never among them, the line to copy."""

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
    "topic", "kind", "tool", "owner", "verdict", "reason", "quiet_since", "known_since", "groups",
    "reading_groups", "last_commit_at", "bytes_out_per_hour", "records", "size_bytes", "evidence",
    "not_proposed", "delete_command", "risks", "retention_ms", "replay_window_ms", "guards",
}  # fmt: skip


def idle(data: str, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    return answer(capsys, "idle", "--data", data, *flags)


def test_json_has_idle_topics_first_with_the_line_that_deletes(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = idle(data, capsys)
    assert all(row.keys() >= _CONTRACT for row in found["rows"])
    assert [(row["topic"], row["verdict"]) for row in found["rows"]] == [
        ("tiny-events", "idle"), ("reports-old", "idle"), ("audit-log", "idle"),
        ("counts-app-store-repartition", "idle"), ("tx-ledger", "unknown"), ("metrics-raw", "read"),
    ]  # fmt: skip
    assert (found["idle"], found["proposed"], found["unknown"], found["days"]) == (4, 1, 1, 7)
    tiny, old, nobodys, streams, new, _ = found["rows"]
    assert found["proposed_bytes"] == tiny["size_bytes"]
    assert tiny["delete_command"].endswith("--delete --topic tiny-events") and tiny["risks"]
    assert (old["delete_command"], old["risks"]) == (None, [])
    assert old["not_proposed"] == "group old-reporting has not read 1279295 records"
    assert nobodys["not_proposed"].startswith("no-committed-offset on 3 of 3 partitions: ")
    assert (streams["delete_command"], streams["tool"]) == (None, "Kafka Streams")
    assert streams["not_proposed"] and new["delete_command"] is None
    some = idle(data, capsys, "--days", "30", "--topic", "reports-old", "--topic", "audit-log")
    assert [(row["topic"], row["verdict"]) for row in some["rows"]] == [
        ("reports-old", "idle"), ("audit-log", "unknown"),
    ]  # fmt: skip
    assert len(idle(data, capsys, "--limit", "1")["rows"]) == 1


def test_people_read_what_it_gives_back_why_not_and_what_may_break(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["idle", "--data", data]) == 0
    out = capsys.readouterr().out
    first = "s ago: 4 topics idle for 7 days or more; deleting the one that is proposed would give "
    assert out.startswith("By the snapshot of ") and first in out.split("\n")[0]
    assert "; not proposed: 3; of 1 topic it is not known." in out
    assert "reports-old: not proposed: group old-reporting has not read" in out
    assert "tx-ledger: not known for long enough" in out
    assert "Lowwater deletes no topic" in out and "A reader without a group" in out
    assert out.count("kafka-topics.sh") == 1


def test_a_broker_that_does_not_answer_leaves_its_topics_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_store.write(tmp_path, "broker-missing")
    found = idle(str(tmp_path), capsys)
    assert found["idle"] == 0 and found["unknown"] == 5
    assert "log ends of 1 of 3 partitions" in found["rows"][0]["reason"]


def test_unmeasured_bytes_are_unknown_never_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_store.write(tmp_path, "unmeasured")
    assert idle(str(tmp_path), capsys)["proposed_bytes"] is None
    assert main(["idle", "--data", str(tmp_path)]) == 0
    assert "of 1 the bytes are not known" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--days", "0"], "USAGE", "--days 0"),
        (["--days", "99999"], "USAGE", "--days 99999"),
        (["--days", "week"], "USAGE", "--days"),
        (["--limit", "0"], "USAGE", "--limit 0"),
    ],
)
def test_bad_input_names_the_flag(
    data: str, capsys: pytest.CaptureFixture[str], flags: list[str], code: str, said: str
) -> None:
    assert main(["idle", "--data", data, "--json", *flags]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == code and said in error["message"] and error["next"]


def test_findings_of_an_older_release_are_no_empty_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_store.write(tmp_path, "older")
    assert main(["idle", "--data", str(tmp_path), "--json"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "NO_ANALYSIS" and "idle_topics" in error["message"]


def test_findings_that_are_old_say_so_and_give_no_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_store.write(tmp_path, now=utc_now() - timedelta(days=60))
    assert main(["idle", "--data", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("By the snapshot of 60 d ago: 4 topics idle")
    assert "No line is given: the newest findings are of " in out and "lowwater watch" in out
    assert "kafka-topics.sh" not in out and "tiny-events: not proposed" not in out
    found = idle(str(tmp_path), capsys)
    assert (found["proposed"], found["age_seconds"] // 86_400) == (0, 60)
    assert found["rows"][0]["not_proposed"] == found["unusable"]
    assert not any(row["delete_command"] for row in found["rows"])
