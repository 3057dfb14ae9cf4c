"""A look at records on the pages of a purge and of a topic: drawn once, kept nowhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.core.errors import ClusterError
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import LookedAt
from dashboard.purge.evidence import look as looking
from dashboard.purge.evidence.look import LookRequest
from dashboard.purge.journal.journal import Journal
from tests.pages.conftest import Open, said
from tests.pages.purges import SENTENCE, Requests
from tests.support.records import looked_at


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[LookRequest]:
    asked: list[LookRequest] = []

    def found(*words: Any) -> tuple[LookedAt, ...]:
        asked.append(words[3])
        return (looked_at(values=words[3].values),)

    monkeypatch.setattr(looking, "look", found)
    return asked


def look(app: AppTest, values: str) -> str:
    app.radio(key="look-values").set_value(values)
    app.number_input(key="look-sampled").set_value(5)
    return said(app.button(key="look").click().run())


def test_a_preview_shows_records_and_values_only_when_asked(
    open_page: Open, requests: Requests, looks: list[LookRequest]
) -> None:
    app = open_page("purge", topics="orders")
    text = look(app, "Hidden")
    assert "orders-0: records from 100 to below 600" in text
    assert "&lt;b&gt;x&lt;/b&gt;" in text and "<b>x</b>" not in text
    assert "1.0" not in text
    assert SENTENCE in text
    assert "{&quot;a&quot;:1.0}" in look(app, "JSON")
    assert [(r.sampled, r.values, dict(r.targets)) for r in looks] == [
        (5, False, {TopicPartition("orders", 0): 600}),
        (5, True, {TopicPartition("orders", 0): 600}),
    ]


def test_what_was_seen_is_kept_nowhere(
    open_page: Open,
    requests: Requests,
    looks: list[LookRequest],
    journal: Journal,
    tmp_path: Path,
) -> None:
    app = open_page("purge", topics="orders")
    look(app, "Text")
    assert "&quot;a&quot;: 1.0" not in said(app.run())
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert kept
    assert not [file for file in kept if b'"a": 1.0' in file.read_bytes()]
    held = repr(app.session_state)
    assert "look-partition" in held and "LookedAt" not in held


def test_a_refusal_leaves_the_preview_as_it_was(
    open_page: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> tuple[LookedAt, ...]:
        raise ClusterError("no broker answered", "Start one.")

    monkeypatch.setattr(looking, "look", refused)
    text = look(open_page("purge", topics="orders"), "Hidden")
    assert "no broker answered" in text
    assert SENTENCE in text


def test_a_topics_page_looks_below_its_committed_targets(
    open_page: Open, looks: list[LookRequest]
) -> None:
    app = open_page("topic", name="orders")
    assert "orders-0: records from" in look(app, "Hidden")
    (request,) = looks
    ((key, target),) = request.targets.items()
    assert (key.topic, target > 0) == ("orders", True)
    assert request.topic_ids["orders"]
