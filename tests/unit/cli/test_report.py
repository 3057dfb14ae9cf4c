"""`lowwater report`: whole files or none, named errors, and nothing of others overwritten."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dashboard.cli.findings import report as report_verb
from dashboard.cli.parser import new_parser, parse
from dashboard.store.tables import FINDING_TABLES
from tests.support import sample_store
from tests.unit.cli.plans import a_plan
from tests.unit.cli.printed import answer


def report(capsys: pytest.CaptureFixture[str], *words: str, exit_code: int = 0) -> dict[str, Any]:
    return answer(capsys, "report", *words, exit_code=exit_code)


def test_parquet_is_a_folder_of_every_table(
    data: str, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = report(capsys, "--format", "parquet", "--out", "found", "--data", data)

    assert value["tables"].keys() == FINDING_TABLES.keys()
    assert {key: value[key] for key in ("format", "out", "cluster_id")} == {
        "format": "parquet", "out": "found", "cluster_id": sample_store.CLUSTER_ID,
    }  # fmt: skip
    for name, rows in value["tables"].items():
        assert pq.read_table(alone / "found" / f"{name}.parquet").num_rows == rows
    assert json.loads((alone / "found" / "report.json").read_text())["tables"] == value["tables"]


def test_a_path_that_ends_with_zip_is_one_archive(
    data: str, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report(capsys, "--format", "csv", "--out", "found.zip", "--data", data)

    with zipfile.ZipFile(alone / "found.zip") as archive:
        assert archive.read("blockers.csv").startswith(b'"snapshot_id","taken_at","group_id"')
    assert [file.name for file in alone.iterdir()] == ["found.zip"]


def test_an_earlier_report_is_replaced_and_other_files_never(
    data: str, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--format", "csv", "--out", "found", "--data", data)
    report(capsys, *words)
    (alone / "found" / "disks.csv").write_text("old")
    report(capsys, *words)
    assert "old" not in (alone / "found" / "disks.csv").read_text()

    (alone / "found" / "mine.txt").write_text("keep")
    error = report(capsys, *words, exit_code=1)["error"]

    assert error["code"] == "FOLDER_TAKEN"
    assert (alone / "found" / "mine.txt").read_text() == "keep"
    assert [file.name for file in alone.iterdir()] == ["found"]


def test_a_folder_that_cannot_be_finished_leaves_the_old_one(
    data: str, alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--format", "csv", "--out", "found", "--data", data)
    report(capsys, *words)
    before = (alone / "found" / "disks.csv").read_bytes()

    def full(_table: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dashboard.reports.source.table_as_csv", full)
    error = report(capsys, *words, exit_code=1)["error"]

    assert error["code"] == "FILE_UNWRITABLE"
    assert (alone / "found" / "disks.csv").read_bytes() == before
    assert [file.name for file in alone.iterdir()] == ["found"]


def test_the_old_folder_comes_back_when_the_new_one_cannot_take_its_place(
    data: str, alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--format", "csv", "--out", "found", "--data", data)
    report(capsys, *words)
    before = (alone / "found" / "disks.csv").stat().st_ino
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name.endswith(".tmp"):
            raise OSError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    assert report(capsys, *words, exit_code=1)["error"]["code"] == "FILE_UNWRITABLE"

    assert (alone / "found" / "disks.csv").stat().st_ino == before
    assert [file.name for file in alone.iterdir()] == ["found"]


def test_no_analysis_yet_is_named(
    tmp_path: Path, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_store.write(tmp_path / "new", "no-analysis")
    for kind in ("html", "csv", "parquet"):
        words = ("--format", kind, "--out", "found", "--data", str(tmp_path / "new"))
        assert report(capsys, *words, exit_code=1)["error"]["code"] == "NO_ANALYSIS"
    assert not (alone / "found").exists()


def test_offsets_json_holds_the_free_targets_of_a_plan(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (alone / "plan.json").write_text(a_plan().to_json_text())

    value = report(
        capsys, "--format", "offsets-json", "--out", "offsets.json", "--plan", "plan.json"
    )

    assert value["partitions"] == 2
    assert json.loads((alone / "offsets.json").read_text()) == {
        "partitions": [
            {"topic": "orders", "partition": 0, "offset": 600},
            {"topic": "orders", "partition": 1, "offset": 600},
        ],
        "version": 1,
    }


def test_offsets_json_of_a_plan_that_is_all_guarded_is_refused(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (alone / "plan.json").write_text(a_plan(all_guarded=True).to_json_text())
    (alone / "offsets.json").write_text(a_plan().offsets_json())  # of an earlier call
    words = ("--format", "offsets-json", "--out", "offsets.json", "--plan", "plan.json")

    assert report(capsys, *words, exit_code=3)["error"]["code"] == "NOTHING_FREE"
    assert not (alone / "offsets.json").exists()


@pytest.mark.parametrize("out", ["plan.json", "./plan.json", "link.json", "name.json"])
def test_offsets_json_do_not_take_the_place_of_the_plan_that_they_are_of(
    alone: Path, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    plan = alone / "plan.json"
    plan.write_text(text := a_plan().to_json_text())
    (alone / "link.json").symlink_to("plan.json")
    (alone / "name.json").hardlink_to(plan)
    words = ("--format", "offsets-json", "--out", out, "--plan", "plan.json")

    error = report(capsys, *words, exit_code=1)["error"]

    assert (error["code"], "--plan" in error["message"]) == ("USAGE", True)
    assert plan.read_text() == text
    assert (alone / out).exists()


def test_offsets_of_a_plan_that_has_expired_are_not_given_to_a_tool_that_checks_nothing(
    alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = a_plan()
    (alone / "plan.json").write_text(plan.to_json_text())
    monkeypatch.setattr("dashboard.cli.findings.report.utc_now", lambda: plan.expires_at)
    words = ("--format", "offsets-json", "--out", "offsets.json", "--plan", "plan.json")

    assert report(capsys, *words, exit_code=3)["error"]["code"] == "PLAN_EXPIRED"
    assert not (alone / "offsets.json").exists()


def test_offsets_are_given_to_no_other_tool_while_every_purge_is_switched_off(
    alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (alone / "plan.json").write_text(a_plan().to_json_text())
    monkeypatch.setenv("LOWWATER_READ_ONLY", "true")
    words = ("--format", "offsets-json", "--out", "offsets.json", "--plan", "plan.json")

    assert report(capsys, *words, exit_code=3)["error"]["code"] == "READ_ONLY"
    assert not (alone / "offsets.json").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--format", "offsets-json", "--out", "o.json"), "PLAN_NOT_NAMED"),
        (("--format", "csv", "--out", "o", "--plan", "plan.json"), "USAGE"),
        (("--format", "xlsx", "--out", "o"), "USAGE"),
        (("--format", "csv", "--out", "no/such/folder"), "FILE_UNWRITABLE"),
        (("--format", "offsets-json", "--out", "o.json", "--plan", "none"), "FILE_UNREADABLE"),
    ],
)
def test_wrong_usage_is_named(
    alone: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: str
) -> None:
    assert report(capsys, *words, exit_code=1)["error"]["code"] == code


def test_html_is_one_file_that_is_replaced(
    data: str, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (alone / "storage.html").write_text("old")
    (alone / "plan.json").write_text(a_plan().to_json_text())
    words = ("--format", "html", "--out", "storage.html", "--data", data)

    value = report(capsys, *words)

    body = (alone / "storage.html").read_bytes()
    assert value["bytes"] == len(body)
    assert body.startswith(b"<!doctype html>")
    assert b"Storage report of prod-eu" in body
    error = report(capsys, *words, "--plan", "plan.json", exit_code=1)["error"]
    assert error["code"] == "CLUSTER_MISMATCH"
    assert (alone / "storage.html").read_bytes() == body


def test_pdf_is_written_or_says_what_is_missing(
    data: str, alone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--format", "pdf", "--out", "storage.pdf", "--data", data)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "weasyprint", None)
        assert report(capsys, *words, exit_code=1)["error"]["code"] == "PDF_UNAVAILABLE"
        assert not (alone / "storage.pdf").exists()
    monkeypatch.setattr("dashboard.reports.page.pdf", lambda _report: b"%PDF-1.7")

    assert report(capsys, *words)["bytes"] == 8
    assert (alone / "storage.pdf").read_bytes() == b"%PDF-1.7"


def test_the_documented_crontab_calls_what_there_is() -> None:
    docs = Path(__file__).parent.parent.parent.parent / "docs" / "reports.md"
    lines = [line for line in docs.read_text(encoding="utf-8").splitlines() if "date +" in line]

    assert len(lines) == 2
    for line in lines:
        words = (
            line.partition("bin/lowwater ")[2].replace("\\%", "%").replace("$(date +%Y-%m)", "x")
        )
        parser, verbs = new_parser()
        report_verb.add_parser(verbs)
        args = parse(parser, verbs, words.split())
        assert (args.verb, args.cluster) == ("report", "prod-eu")
        assert args.format == ("pdf" if args.out.endswith(".pdf") else "csv")
