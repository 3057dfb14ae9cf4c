"""`lowwater orphans`: what is told of folders and disks, and the file that a sweep reads."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.core.clock import format_time, utc_now
from dashboard.inventory.listing import shell_line
from dashboard.orphans import verdicts
from tests.support import sample_store
from tests.unit.cli.printed import answer


def said(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    return answer(capsys, "orphans", *words)


def test_rows_disks_and_what_nobody_looked_at(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value = said(capsys, "--data", data)

    first, second = value["rows"]
    assert (first["directory"], first["verdict"]) == ("clicks-v1-0.0a4f-stray", "removable")
    assert (first["check_at"], second["check_at"][-1]) == (None, "Z")
    assert {"broker_id", "log_dir", "topic", "partition", "topic_id", "kind", "size_bytes",
            "reason", "evidence", "first_seen_at"} <= first.keys()  # fmt: skip
    assert [disk["stray_bytes"] for disk in value["disks"]] == [None, None, 966_367_641]
    assert [broker["broker_id"] for broker in value["missing"]] == [1, 2]
    assert value["missing"][0]["line"] == shell_line(["/d1"])
    assert value["seen_once"] == 1
    assert "verdicts" not in value


def test_people_get_the_line_to_run_where_bytes_are_unexplained(
    data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["orphans", "--data", data]) == 0
    text = capsys.readouterr().out

    assert text.startswith("By the snapshot of ") and "ago: orphans known: 2.\n" in text
    line = next(line for line in text.splitlines() if "clicks-v1-0.0a4f-stray" in line)
    assert line.split()[4:6] == ["614.4", "MiB"]
    assert line.endswith("every snapshot of 9 h shows it")
    assert "unexplained: 7.0 GiB on broker 1; run this line there:\n" + shell_line(["/d1"]) in text
    assert "on broker 3; run this" not in text
    assert "seen once only, no orphan yet: 1" in text


def test_the_age_of_old_findings_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sample_store.write(tmp_path / "data", now=utc_now() - timedelta(days=60))
    assert main(["orphans", "--data", str(tmp_path / "data")]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "By the snapshot of 60 d ago: orphans known: 2.\n\nThis may have changed"
    )
    value = said(capsys, "--data", str(tmp_path / "data"))
    assert value["age_seconds"] // 86_400 == 60 and "lowwater watch" in value["unusable"]


def test_the_verdicts_are_written_for_a_sweep(
    data: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "verdicts.json"
    value = said(capsys, "--data", data, "--out", str(out))

    found = verdicts.parse(out.read_text(), str(out), now=utc_now())
    until = format_time(found.expires_at)
    assert value["verdicts"] == {
        "file": str(out), "sha256": found.sha256, "expires_at": until,
    }  # fmt: skip
    assert (found.cluster_id, found.cluster_name) == (sample_store.CLUSTER_ID, sample_store.NAME)
    assert found.analysis_id == value["analysis_id"]
    assert [row.directory for row in found.rows if row.verdict == "removable"] == [
        "clicks-v1-0.0a4f-stray"
    ]
    assert len(found.rows) == 2


def test_a_file_that_cannot_be_written_is_named_before_anything_is_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["orphans", "--data", "nowhere", "--out", "no/such/file", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "FILE_UNWRITABLE"


def test_before_any_analysis_it_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sample_store.write(tmp_path / "data", "no-analysis")
    assert main(["orphans", "--data", str(tmp_path / "data"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "NO_ANALYSIS"


def test_sweep_takes_no_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["orphans", "sweep", "--out", "v.json", "--json"]) == 1
    assert "--out" in json.loads(capsys.readouterr().out)["error"]["message"]
