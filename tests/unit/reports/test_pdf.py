"""The PDF: its pages and texts, odd names and all; a machine without Pango is told what to do."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest
from pypdf import PdfReader

from dashboard.core.errors import ReportError
from dashboard.reports import page as pdfs
from dashboard.reports.storage import storage_report
from tests.support import sample_store
from tests.support.odd_store import ODD
from tests.unit.purge.outcomes import kept, receipt, run
from tests.unit.reports.sources import NOW, of_rows, of_store, of_topics


def text_of(body: bytes) -> list[str]:
    """What a reader could copy. Of a font with an emoji pypdf tells two bytes for each letter."""
    pages = PdfReader(io.BytesIO(body)).pages
    return [page.extract_text().replace("\x00", "") for page in pages]


@pytest.mark.further
def test_every_chapter_is_on_paper(tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = sample_store.write(tmp_path_factory.mktemp("data"), now=NOW)
    measured = receipt(kept(9, 9))
    freed = replace(measured, predicted_bytes=7 * 2**30, freed_bytes=6 * 2**30)
    report = storage_report(of_store(cluster, [run("r1", freed)]))

    pages = text_of(pdfs.pdf(report))

    whole = "\n".join(pages)
    assert 4 <= len(pages) <= 7
    assert "prod-eu" in pages[0]
    assert report.headline[0].text in pages[0]
    for section in report.sections:
        assert section.title in whole
    assert "7.0 GiB" in whole
    assert "6.0 GiB" in whole
    assert all(f"{at} of {len(pages)}" in page for at, page in enumerate(pages, 1))


@pytest.mark.further
def test_an_odd_name_is_text() -> None:
    blocker = {"group_id": ODD, "topic": "t", "bytes_held_alone": 9, "bytes_freed_if_waived": 9}

    whole = "".join(text_of(pdfs.pdf(storage_report(of_rows(blockers=[blocker])))))

    assert "</script><b>" in "".join(whole.split())


def test_an_empty_cluster_is_one_short_paper() -> None:
    assert len(text_of(pdfs.pdf(storage_report(of_rows())))) <= 2


@pytest.mark.slow
def test_ten_thousand_topics_are_few_pages() -> None:
    assert len(text_of(pdfs.pdf(storage_report(of_topics(10_000))))) <= 5


def test_without_pango_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)

    with pytest.raises(ReportError) as caught:
        pdfs.pdf(storage_report(of_rows()))

    assert caught.value.code == "PDF_UNAVAILABLE"
    assert "libpangoft2-1.0-0" in caught.value.next_step
