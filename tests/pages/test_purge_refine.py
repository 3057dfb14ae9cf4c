"""The preview says how its bytes were found, and measures record sizes where asked."""

from __future__ import annotations

import pytest

from dashboard.core.errors import ClusterError
from dashboard.purge.plan import drafts
from dashboard.purge.plan.plan import Plan
from tests.pages.conftest import Open, said
from tests.pages.purges import SENTENCE, Requests


def captions(open_page: Open) -> tuple[list[str], list[str]]:
    """The captions of a preview before and after record sizes were measured."""
    app = open_page("purge", topics="orders")
    before = [c.value for c in app.caption]
    app.button(key="refine").click().run()
    assert SENTENCE in said(app)
    assert not [b for b in app.button if b.key == "refine"]
    return before, [c.value for c in app.caption]


def test_the_estimator_is_named_and_a_measured_plan_takes_its_place(
    open_page: Open, requests: Requests
) -> None:
    before, after = captions(open_page)
    assert "Bytes of 1 partition: 1 proportional." in before
    assert "Bytes of 1 partition: 1 sampled." in after
    assert [r.sample for r in requests] == [False, True]


def test_a_cluster_that_refuses_leaves_the_preview_as_it_was(
    open_page: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_page("purge", topics="orders")

    def refused(*_: object, **__: object) -> Plan:
        raise ClusterError("no broker answered", "Start one.")

    monkeypatch.setattr(drafts, "draft", refused)
    app.button(key="refine").click().run()
    assert "no broker answered" in said(app)
    assert SENTENCE in said(app)
