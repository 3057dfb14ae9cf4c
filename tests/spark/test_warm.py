"""The service: the analysis that nobody waits for, and what it answers of a bad snapshot."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics import __main__ as service
from analytics import __main__ as warm
from analytics.job import Analyzed, analyze
from dashboard.core.errors import AnalysisError
from tests.support import looks
from tests.support.lab import Lab, Snapshot

pytestmark = pytest.mark.spark


@pytest.mark.further
def test_an_empty_snapshot_is_analyzed_whole_and_leaves_nothing(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done: list[Analyzed] = []

    def noted(*arguments: Any, **options: Any) -> None:
        done.append(analyze(*arguments, **options))

    monkeypatch.setattr(warm, "analyze", noted)
    warm.warm(lab.spark, lab.settings)
    assert [found.tables["holds"] for found in done] == [0]
    assert list(tmp_path.iterdir()) == []
    warm.warm(lab.spark, replace(lab.settings, spark_master="spark://elsewhere:7077"))
    assert len(done) == 1, "a cluster is not asked for it"


@pytest.mark.further
def test_one_that_fails_does_not_stop_the_service(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def failing(*_: Any, **__: Any) -> None:
        tried.append(1)
        raise AnalysisError("Spark failed", "Try again.")

    monkeypatch.setattr(warm, "analyze", failing)
    warm.warm(lab.spark, lab.settings)
    assert tried == [1]


@pytest.mark.further
def test_the_loop_answers_a_bad_snapshot_with_its_reason_and_goes_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bad = lab.write(Snapshot().topic("t", groups={"g": 50}))
    looks.file(lab, bad, "replicas").write_bytes(b"PAR1 half a file")
    broken = lab.write(Snapshot().topic("t", groups={"g": 60}))
    looks.file(lab, broken, "x").with_name("manifest.json").write_text("no JSON")
    good = lab.write(Snapshot().topic("t", groups={"g": 70}))
    lines = [{"snapshot_id": i} for i in (bad, broken, "20200101T000000000Z-gone", good)]
    monkeypatch.setattr(service, "open_session", lambda _settings: lab.spark)
    monkeypatch.setattr(service, "prepare", lambda *_words, **_more: None)
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(json.dumps(x) + "\n" for x in lines)))
    answers = io.StringIO()
    assert service._serve(lab.settings, str(tmp_path), None, answers) == 0
    _, first, second, third, last = map(json.loads, answers.getvalue().splitlines())
    assert [a["error"]["code"] for a in (first, second, third)] == [
        "STORE_UNREADABLE", "STORE_UNREADABLE", "SNAPSHOT_NOT_FOUND",
    ]  # fmt: skip
    assert all(a["error"]["next"] and a["exit_code"] == 1 for a in (first, second, third))
    assert last["snapshot_id"] == good
    assert last["left_out"] == [bad, broken]
