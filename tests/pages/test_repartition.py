"""Policies shows what the repartition doctor sees: a card for each topic that is purged badly."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.clock import utc_now
from dashboard.store.snapshots import ClusterStore
from dashboard.ui import policy_advice
from dashboard.ui.growth import advice
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


@pytest.mark.further
def test_advice_goes_from_an_open_page_once_its_snapshot_is_too_old(
    store: ClusterStore, open_page: Open, redrawn: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()

    def step(_: int) -> None:
        log.write(1300)
        log.commits["app"] = log.end

    run(store, [log], step, snapshots=8, end=utc_now())
    app = open_page("policies")
    assert "Nobody purges it" in said(app) and advice.AGAIN.total_seconds() in redrawn
    monkeypatch.setattr(policy_advice, "utc_now", lambda: utc_now() + timedelta(minutes=5))
    text = said(app.run())
    assert "Nobody purges it" not in text and "more than 3 x 60 s ago" in text


def test_one_snapshot_is_no_history(open_page: Open) -> None:
    text = said(open_page("policies", "plain"))
    assert "1 repartition topic: 1 not known yet" in text
    assert "not enough history yet: 1 snapshot" in text
