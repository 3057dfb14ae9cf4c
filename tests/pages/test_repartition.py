"""Policies shows what the repartition doctor sees: a card for each topic that is purged badly."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.clock import utc_now
from dashboard.snapshots import ClusterStore
from tests.pages.conftest import Open, said
from tests.unit.policies import kept_history
from tests.unit.policies.streams_topics import TOPIC, Group, Log, run


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterStore:
    monkeypatch.setattr("os.fsync", lambda _: None)
    return kept_history.store(tmp_path / "data")


def test_a_topic_that_nobody_purges_has_a_card(store: ClusterStore, open_page: Open) -> None:
    grows, well = Log(), Log(topic="other-sums-repartition", topic_id="well")

    def step(_: int) -> None:
        for log, group in ((grows, "app"), (well, "other")):
            log.write(1300)
            log.commits[group] = log.end
        well.purge(well.end)

    run(store, [grows, well], step, snapshots=8, groups=[Group(), Group("other")], end=utc_now())
    text = said(open_page("policies"))
    assert "2 repartition topics: 1 that nobody purges, 1 healthy" in text
    assert TOPIC in text and "Nobody purges it: the log start stands still" in text
    assert "how many bytes is not known" in text


def test_one_snapshot_is_no_history(open_page: Open) -> None:
    text = said(open_page("policies", "plain"))
    assert "1 repartition topic: 1 not known yet" in text
    assert "not enough history yet: 1 snapshot" in text
