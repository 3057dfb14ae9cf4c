"""The analysis that nobody waits for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analytics import warm
from analytics.job import Analyzed, analyze
from dashboard.errors import AnalysisError
from tests.spark.conftest import Lab

pytestmark = pytest.mark.spark


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


def test_one_that_fails_does_not_stop_the_service(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise AnalysisError("Spark failed", "Try again.")

    monkeypatch.setattr(warm, "analyze", failing)
    warm.warm(lab.spark, lab.settings)
