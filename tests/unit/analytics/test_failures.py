"""An analysis that fails says whether its snapshot or Spark was the cause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from analytics import __main__ as served
from dashboard.core.errors import AnalysisError
from dashboard.settings.settings import Settings


def failure(monkeypatch: pytest.MonkeyPatch, spark: Any) -> AnalysisError:
    def fails(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(served, "analyze", fails)
    cluster: Any = SimpleNamespace(store=SimpleNamespace(root="data"))
    with pytest.raises(AnalysisError) as caught:
        served._analyze(spark, Settings(), cluster, "snapshot-1", False)
    return caught.value


def spark_of(java: Any) -> Any:
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=java)))


def test_a_java_that_was_killed_is_named_and_no_snapshot_is_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    error = failure(monkeypatch, spark_of(gone))
    assert (error.code, error.message) == ("SPARK_LOST", "Spark ended while it analyzed snapshot-1")
    assert "bug report" not in error.next_step


def test_a_snapshot_that_cannot_be_analyzed_is_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    there = SimpleNamespace(isStopped=lambda: False, isLocal=lambda: True)
    error = failure(monkeypatch, spark_of(lambda: there))
    assert "snapshot-1 failed: ConnectionRefusedError" in error.message
    assert "bug report" in error.next_step
