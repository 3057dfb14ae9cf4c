"""Names of any characters: every page shows them as text, and none of it is markup."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest

from dashboard.purge.plan.guards import Waive
from dashboard.ui.session import routes
from tests.pages import purges
from tests.pages.conftest import Open, said
from tests.pages.purges import Requests
from tests.support import odd_store, sample_store

NAME = "<i>prod</i> *eu* [1](http://x.example)"


@pytest.mark.further_but("purge")
@pytest.mark.parametrize("page", ["overview", "reclaimable", "purge", "quality"])
def test_a_group_of_255_odd_characters_is_text_on_every_page(
    open_page: Open, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(odd_store.ODD) == 255
    odd_store.write(tmp_path / "data", monkeypatch)

    app = open_page(page, variant=None)

    text = said(app)
    html = "\n".join(str(block.value) for block in app.html)
    assert "</script><b>" not in html
    assert "failed" not in text
    if page == "overview":
        assert "💧" in text


@pytest.mark.further_but("purge")
@pytest.mark.parametrize("page", sorted(routes.TITLES))
def test_a_clusters_name_is_text_on_every_page(
    open_page: Open,
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    requests: Requests,
) -> None:
    monkeypatch.setattr(sample_store, "NAME", NAME)
    monkeypatch.setattr(purges, "CLUSTER_NAME", NAME)
    sample_store.write(tmp_path / "data")
    asked = {"topics": "orders"} if page == "purge" else {}

    app = open_page(page, variant=None, **asked)
    if page not in ("policies", "fleet"):  # they have no report
        app.button(key="report").click().run()

    html = "\n".join(str(block.value) for block in app.html)
    marked = [str(block.value) for block in (*app.markdown, *app.caption)]
    marked += [w.label for w in (*app.button, *app.page_link, *app.checkbox, *app.expander)]
    assert escape(NAME) in html
    assert "<i>" not in html
    assert not [text for text in marked if "*eu*" in text]
    assert len(requests) == len(asked)
    if requests:
        assert f"on {escape(NAME)}</code>" in html


@pytest.mark.further_but("a%2Cb&waive=c")
@pytest.mark.parametrize("group_id", ["a=b", "a,b", " a ", "a%2Cb&waive=c"])
def test_the_group_that_was_ticked_is_waived_and_no_other(
    open_page: Open,
    group_id: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    requests: Requests,
) -> None:
    odd_store.write(tmp_path / "data", monkeypatch, group_id)
    app = open_page("reclaimable", variant=None, group=group_id)
    app.checkbox(key=f"waive {group_id}").check().run()
    app.button(key="plan-selected").click().run()
    assert app.multiselect(key="plan-waive").value == [group_id]

    app = open_page("purge", topics="orders", waive=group_id)
    app.text_input(key="plan-reason").set_value("retired=yes").run()
    app.button(key="preview").click().run()

    assert requests[-1].topics == ("orders",)
    assert requests[-1].waive == (Waive(group_id, "retired=yes"),)
