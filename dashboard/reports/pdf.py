"""The storage report as PDF by WeasyPrint, which needs Pango on the machine."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import NoReturn

from dashboard.core.errors import ReportError
from dashboard.reports.page import paper_page
from dashboard.reports.parts import Report


def pdf(report: Report) -> bytes:
    """The report for paper. Raises ReportError PDF_UNAVAILABLE where Pango is missing."""
    made: bytes = _weasyprint().HTML(string=paper_page(report), url_fetcher=_refuse).write_pdf()
    return made


def problem() -> ReportError | None:
    """Why this machine cannot make a PDF; None when it can."""
    try:
        _weasyprint()
    except ReportError as error:
        return error
    return None


def _weasyprint() -> ModuleType:
    try:
        import weasyprint
    except (ImportError, OSError) as error:
        raise ReportError(
            f"a PDF cannot be made on this machine: {str(error).splitlines()[0]}",
            "Install Pango (Debian: apt-get install libpangoft2-1.0-0; macOS: brew install pango), "
            "or take --format html and print it.",
            code="PDF_UNAVAILABLE",
        ) from error
    logging.getLogger("weasyprint").setLevel(logging.ERROR)  # it warns of each glyph without font
    module: ModuleType = weasyprint
    return module


def _refuse(url: str) -> NoReturn:
    """Nothing is ever fetched: the page holds all there is."""
    raise ValueError(f"a report fetches nothing, not {url[:80]}")
