"""Of a large cluster the doctor looks in a process of its own, and finds what it would here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.core.errors import AnalysisError
from dashboard.policies import apart
from dashboard.policies.apart import diagnosed
from dashboard.policies.doctor.repartition import diagnose
from dashboard.purge.journal.journal import open_default
from dashboard.settings.settings import load
from dashboard.store.snapshots import ClusterStore
from tests.unit.policies import kept_history
from tests.unit.policies.streams_topics import END, TOPIC, Log, analysis, run


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterStore:
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(apart, "MOST_HERE", 0)
    return kept_history.store(tmp_path)


def test_its_findings_come_back_as_they_are(store: ClusterStore) -> None:
    idle, purged = Log(), Log(topic="app-b-repartition")

    def step(number: int) -> None:
        for log in (idle, purged):
            log.write(500)
            log.commits["app"] = log.end
        if number % 3 == 0:
            purged.purge(purged.end)

    run(store, [idle, purged], step)
    analysis(store, committed_bytes={(TOPIC, 0): 24_000_000})
    settings = load()
    journal = open_default(settings)
    here = diagnose(store, journal, settings, END)
    said: list[str] = []

    assert diagnosed(store, journal, settings, END, said.append) == here
    assert {one.kind for one in here} >= {"not-purged"}
    assert any(one.rhythm is not None for one in here)
    assert said == []


@pytest.mark.further
def test_its_error_is_told_as_it_says(store: ClusterStore, tmp_path: Path) -> None:
    run(store, [Log()], lambda _: None)
    settings = load()
    gone = replace(settings, source=tmp_path / "gone.toml")
    with pytest.raises(AnalysisError, match=r"gone\.toml") as found:
        diagnosed(store, open_default(settings), gone, END, lambda _: None)
    assert found.value.code == "SETTINGS_NOT_FOUND"
