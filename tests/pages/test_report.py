"""The button Report stands on every page and hands out what the command line writes."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from dashboard.core.errors import StoreError
from dashboard.reports import source
from dashboard.ui.session import header
from tests.pages.conftest import Open, said
from tests.support import sample_store

Handed = dict[str, tuple[Callable[[], Any], dict[str, Any]]]


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> Handed:
    """What each download button would hand out, by its label."""
    found: Handed = {}

    def button(label: str, data: Callable[[], Any], **options: Any) -> bool:
        found[label] = (data, options)
        return False

    monkeypatch.setattr(st, "download_button", button)
    return found


@pytest.mark.further_but("reclaimable", "purge")
@pytest.mark.parametrize(
    "page", ["overview", "reclaimable", "purge", "orphans", "audit", "quality"]
)
def test_every_page_offers_the_report(open_page: Open, page: str) -> None:
    app = open_page(page)

    assert app.button(key="report").label == "Report"
    assert not app.exception


def test_before_the_first_analysis_there_is_nothing_to_report(open_page: Open) -> None:
    assert "Report" not in [button.label for button in open_page(variant="no-analysis").button]


def test_each_format_is_made_of_the_analysis_that_is_shown(
    open_page: Open, handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_page()
    app.button(key="report").click().run()
    assert not app.exception
    analysis = said(app)

    page = handed["Page (HTML)"][0]()
    with zipfile.ZipFile(BytesIO(handed["Every table (CSV)"][0]())) as archive:
        about = archive.read("report.json").decode()
        assert set(archive.namelist()) == source.names("csv")

    assert f"Storage report of {sample_store.NAME}" in page
    assert about.split('"analysis_id": "')[1].split('"')[0] in analysis
    assert handed["Page (HTML)"][1]["file_name"].startswith("lowwater-prod-eu-")
    assert zipfile.is_zipfile(BytesIO(handed["Every table (Parquet)"][0]()))
    assert not handed["Paper (PDF)"][1]["disabled"]


def test_a_click_is_not_lost_to_an_analysis_that_came_just_before_it(
    open_page: Open, handed: Handed, tmp_path: Path
) -> None:
    """The header showed it, by another run, before the run had come to the button."""
    app = open_page()
    sample_store.write(tmp_path / "data", "calm")
    app.button(key="report").click().run()
    assert not app.exception
    assert "Page (HTML)" in handed
    sample_store.write(tmp_path / "data", "nothing")
    app.button(key="lw-help").click().run()
    assert "low watermark" in said(app).lower()


def test_a_click_that_an_error_came_before_opens_nothing_later(
    open_page: Open, handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_page()

    def fails(_: object) -> None:
        raise StoreError("the topics cannot be read", "Collect again.")

    with monkeypatch.context() as patched:
        patched.setattr(header, "search_box", fails)
        assert "the topics cannot be read" in said(app.button(key="report").click().run())
    app.run()
    assert not handed


@pytest.mark.further
def test_without_pango_the_pdf_says_what_to_install(
    open_page: Open, handed: Handed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    app = open_page()

    app.button(key="report").click().run()

    assert handed["Paper (PDF)"][1]["disabled"]
    assert "libpangoft2-1.0-0" in said(app)
