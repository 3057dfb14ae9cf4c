"""The button of every page that hands the storage report out, and the tables behind it."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from dashboard.ui import access, formats, markup
from dashboard.ui.context import Screen
from dashboard.ui.runs import open_journal
from dashboard.ui.states import guarded


def report_button(screen: Screen) -> None:
    """A button that opens the choice of files; nothing before the first analysis."""
    if screen.findings is not None and st.button(
        "Report", key="report", width="stretch", help="These findings as files to forward."
    ):
        _choose(screen)


@st.dialog("Storage report")
@guarded
def _choose(screen: Screen) -> None:
    """One download a format. Files are made when they are asked for."""
    from dashboard.reports import findings_files, pdf
    from dashboard.reports.page import html_page
    from dashboard.reports.source import open_source
    from dashboard.reports.storage import storage_report
    from dashboard.ui.idle_table import asking

    found = screen.findings
    assert found is not None
    journal = open_journal()
    runs = journal.runs(screen.cluster.cluster_id)
    source = open_source(
        screen.cluster, runs, screen.now, screen.settings.every,
        analysis_id=found.id, read=found.table, begins=journal.begins(),
        ask=asking(screen),
    )  # fmt: skip
    st.caption(
        f"{markup.plain(screen.cluster.name)}: what can be given back, who holds the rest, disks, "
        f"orphans, slow followers, {formats.plural(len(runs), 'purge')}, data quality. "
        f"Of the analysis that this page shows, {found.id}."
    )
    missing = pdf.problem()

    def tables(kind: str) -> Callable[[], bytes]:
        return lambda: findings_files.as_zip(findings_files.files(kind, source.read, source.about))

    name = f"lowwater-{screen.cluster.name}-{screen.manifest.taken_at:%Y%m%dT%H%M%SZ}"
    _offer("Page (HTML)", lambda: html_page(storage_report(source)), f"{name}.html", "text/html",
           "One file with plots; opens without network.", main=True)  # fmt: skip
    _offer("Paper (PDF)", lambda: pdf.pdf(storage_report(source)), f"{name}.pdf",
           "application/pdf", missing.next_step if missing else "The same, A4.",
           disabled=missing is not None)  # fmt: skip
    _offer("Every table (CSV)", tables("csv"), f"{name}-csv.zip", "application/zip",
           "A zip of all findings tables, for a spreadsheet.")  # fmt: skip
    _offer("Every table (Parquet)", tables("parquet"), f"{name}-parquet.zip", "application/zip",
           "A zip of all findings tables, for programs.")  # fmt: skip
    if missing:
        st.caption(markup.plain(f"{missing.message}. {missing.next_step}"))


def _offer(
    label: str,
    make: Callable[[], str | bytes],
    file_name: str,
    mime: str,
    said: str,
    *,
    main: bool = False,
    disabled: bool = False,
) -> None:
    st.download_button(
        label,
        access.at_click(make),
        file_name=file_name,
        mime=mime,
        help=said,
        key=f"report-{file_name.rpartition('.')[2]}-{label}",
        type="primary" if main else "secondary",
        disabled=disabled,
        on_click="ignore",
        width="stretch",
    )
