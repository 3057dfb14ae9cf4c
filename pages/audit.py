"""Audit: who purged what, when, and does the chain of entries verify?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.purge.journal import archive
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import RunRow, Verification
from dashboard.ui import timeline
from dashboard.ui.components import grid, markup, states
from dashboard.ui.purge import kept, stopping
from dashboard.ui.purge.runs import each, fold, left_out, open_journal, past_runs, verify
from dashboard.ui.session import access, context
from dashboard.ui.session.header import header
from dashboard.ui.timeline import SHOWN, Line, entries_left_out, keep, lines
from dashboard.views import formats
from dashboard.views.entries import KINDS


def show() -> None:
    """The chain's verdict, exports, the switch that stops every purge; the runs and entries."""
    try:
        header(context.load(), follows=True)
    except LowwaterError as error:  # neither the journal nor its switch needs a snapshot
        states.show_error(error)
    journal = open_journal()
    follow(journal.newest_entry())
    verdict = verify(journal)
    left, middle, right = st.columns([5, 3, 2], vertical_alignment="center")
    left.html(chain_html(verdict))
    if verdict.ok and (copied := journal.file.rolled_back()) is not None:
        states.show_error(copied)
    with middle:
        show_exports(journal)
    with right:
        stopping.switch(journal)
    runs = past_runs()
    # Line by line: with their receipts 2,000 entries are 30 MB.
    newest = lines(journal.each_entry(max(0, verdict.newest_entry - SHOWN)), runs)
    if not newest:
        states.show(
            "No purge yet",
            "The journal is empty: nothing was queued from this machine.",
            "A purge starts on the page Purge, or with lowwater plan and apply.",
        )
        kept.show_archives(context.settings(), chosen_cluster())  # of a machine before this one
        return
    cluster = chosen_cluster()
    if every := show_every(cluster, newest, runs):
        cluster = None
    show_entries(
        [line for line in newest if cluster is None or line.cluster_id in (cluster, None)],
        [run for run in runs if cluster is None or run.cluster_id == cluster],
        entries_left_out(verdict),
        clusters=every,
    )
    kept.show_archives(context.settings(), cluster)


def chosen_cluster() -> str | None:
    """The cluster that the pages show; None where there is none: then nothing is left out."""
    try:
        return context.open_cluster().cluster_id
    except LowwaterError:
        return None


def show_every(cluster: str | None, found: Sequence[Line], runs: Sequence[RunRow]) -> bool:
    """The switch that takes in other clusters, where the journal has some; whether it is on."""
    others = {line.cluster_id for line in found} | {run.cluster_id for run in runs}
    others -= {cluster, None}
    if cluster is None or not others:
        return bool(others)
    return bool(
        st.toggle(
            f"Show {formats.plural(len(others), 'other cluster')} too",
            key="every",
            bind="query-params",
            help="One journal keeps the purges of every cluster that this machine works on.",
        )
    )


@st.fragment(run_every=timedelta(seconds=5))
@states.guarded
def follow(shown: int) -> None:
    """Draw the page anew when the journal has grown, as long as its reader wants that."""
    if st.session_state.get("live", True) and open_journal().newest_entry() != shown:
        st.rerun(scope="app")


def chain_html(verdict: Verification) -> str:
    """`chain verified to entry N`, or each break."""
    if verdict.ok:
        since = (
            f"entries before {formats.number(verdict.first_entry)} are archived"
            if verdict.first_entry > 1
            else "each entry's hash covers the one before it"
        )
        return (
            '<div class="lw">✔ chain verified to entry '
            f"<b>{formats.number(verdict.newest_entry)}</b> <small>{since}</small></div>"
        )
    broken = "".join(f"<p>✖ {markup.text(problem)}</p>" for problem in verdict.problems)
    return (
        f'<div class="lw lw-state warn" role="alert"><h2>The chain is broken</h2>{broken}'
        "<p><b>Next:</b> keep the journal's file as it is, and compare it with a backup.</p></div>"
    )


def show_exports(journal: Journal) -> None:
    """The whole journal as files, built when they are asked for."""
    name = f"lowwater-journal-{utc_now():%Y%m%dT%H%M%SZ}"
    with st.container(horizontal=True, horizontal_alignment="right"):
        st.download_button(
            "Export CSV",
            access.at_click(lambda: archive.as_csv(journal)),
            file_name=f"{name}.csv",
            mime="text/csv",
            key="export-csv",
            on_click="ignore",
            help="One line per purged partition: who, when, from where, typed text, plan, outcome.",
        )
        st.download_button(
            "Export JSON",
            access.at_click(lambda: archive.as_json(journal)),
            file_name=f"{name}.json",
            mime="application/json",
            key="export-json",
            on_click="ignore",
            help="Every run with its plan and partitions, and the whole chain of entries.",
        )


def show_entries(
    found: Sequence[Line], runs: Sequence[RunRow], cut: str, *, clusters: bool
) -> None:
    """Runs and the newest entries, both by the same filters; `cut` says what is left out, and
    `clusters` that they are of several.
    """
    columns = st.columns(5)
    who = _one(columns[0], "Person", {line.who for line in found}, "who")
    topic = _one(columns[1], "Topic", {t for line in found for t in line.topics}, "topic")
    state = _one(columns[2], "State of the run", {run.outcome for run in runs}, "state")
    run_id = _one(columns[3], "Run", {run.run_id for run in runs}, "run")
    kind = _one(columns[4], "Entry", {line.kind for line in found}, "kind")
    topics = timeline.topics_by_run(found)
    kept = [
        run
        for run in runs
        if timeline.keep_runs(
            run,
            topics.get(run.run_id, frozenset()),
            who=who,
            topic=topic,
            state=state,
            run_id=run_id,
        )
    ]
    if runs:
        st.html(f'<div class="lw"><h2>{formats.plural(len(kept), "run")}</h2></div>')
        folded = fold(kept)
        if len(folded) < len(kept) and st.toggle("Each run of a policy", key="each"):
            folded = each(kept)
        timeline.runs_table(folded, topics, utc_now(), clusters=clusters)
        if cut := left_out():
            st.caption(cut)
    in_state = {run.run_id for run in runs if run.outcome == state}
    show_timeline(
        [
            line
            for line in found
            if keep(line, who=who, topic=topic, run_id=run_id, kind=kind)
            and (state is None or line.run_id in in_state)
        ],
        cut,
    )


def show_timeline(rows: Sequence[Line], cut: str) -> None:
    """The entries, newest first."""
    noun = "entry" if len(rows) == 1 else "entries"
    st.html(
        f'<div class="lw"><h2>{formats.number(len(rows))} {noun} '
        f"<small>{markup.text(cut)}</small></h2></div>"
    )
    now = utc_now()
    shown = pd.DataFrame(
        {
            "Entry": [line.seq for line in rows],
            "Time (UTC)": [f"{line.at:%Y-%m-%d %H:%M:%S}" for line in rows],
            "Ago": [formats.age(line.at, now) for line in rows],
            "Who": [line.who for line in rows],
            "What": [KINDS.get(line.kind, line.kind) for line in rows],
            "Said": [line.said for line in rows],
            "Topics": [", ".join(sorted(line.topics)) for line in rows],
            "Run": [
                timeline.address(line.run_id, line.cluster_id) if line.run_id else None
                for line in rows
            ],
        }
    )
    grid.show(
        shown,
        {
            "Entry": st.column_config.NumberColumn(width=60),
            "Time (UTC)": st.column_config.TextColumn(width=145),
            "Ago": st.column_config.TextColumn(width=60),
            "Who": st.column_config.TextColumn(width=160),
            "What": st.column_config.TextColumn(width=125),
            "Said": st.column_config.TextColumn(width=330),
            "Topics": st.column_config.TextColumn(width=130),
            "Run": st.column_config.LinkColumn(display_text=r"run=(.*)", width=165),
        },
        least=3,
        most=18,
        alt="Journal entries, newest first: time, person, what happened, topics and run",
    )


def _one(place: DeltaGenerator, label: str, options: set[str], key: str) -> str | None:
    return grid.one(place, label, key, sorted(options - {""}))


show()
