"""The journal on the page Audit: its entries one a line, and the audited runs as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd
import streamlit as st

from dashboard.core.clock import parse_time
from dashboard.purge.journal.rows import Entry, RunRow, Verification
from dashboard.ui.components import grid
from dashboard.ui.purge import runs, second_person
from dashboard.ui.purge.runs import RUN_WORDS
from dashboard.ui.session import context, routes
from dashboard.views import formats
from dashboard.views.entries import Body, said

# The journal's entries as a timeline: one line each, filtered by person, topic, run and kind.

SHOWN = 2000  # the newest entries that a page reads


@dataclass(frozen=True, slots=True)
class Line:
    """One entry in words; `topics` are those it speaks of, `cluster_id` that of which it does.

    Without one it concerns every cluster, or it is not known.
    """

    seq: int
    at: datetime
    run_id: str | None
    who: str
    kind: str
    said: str
    topics: frozenset[str]
    cluster_id: str | None = None


def lines(entries: Iterable[Entry], known: Iterable[RunRow]) -> list[Line]:
    """Newest first. A line of a run without a person of its own is its starter's."""
    by_id = {run.run_id: run for run in known}
    found = [
        Line(
            entry.seq,
            parse_time(entry.at),
            entry.run_id,
            str(body.who or (run.who if run else "")),
            entry.kind,
            said(entry.kind, body),
            body.named,
            body.cluster_id or (run.cluster_id if run else None),
        )
        for entry, body, run in (
            (entry, Body.of(entry), by_id.get(entry.run_id or "")) for entry in entries
        )
    ]
    return sorted(found, key=lambda line: -line.seq)


def keep(
    line: Line, *, who: str | None, topic: str | None, run_id: str | None, kind: str | None
) -> bool:
    """Whether a line passes the filters; None passes all."""
    return (
        (who is None or line.who == who)
        and (topic is None or topic in line.topics)
        and (run_id is None or line.run_id == run_id)
        and (kind is None or line.kind == kind)
    )


def entries_left_out(found: Verification) -> str:
    """How many older entries the timeline leaves out, in words; "" where it has all."""
    if found.entries <= SHOWN:
        return ""
    return (
        f"of the newest {formats.number(SHOWN)} of {formats.number(found.entries)} entries; all of "
        "them: the exports above"
    )


# The audited runs as a table: who, when, from where, how, by which plan and typed sentence.


def topics_by_run(found: Sequence[Line]) -> dict[str, frozenset[str]]:
    """The topics that each run's entries name."""
    topics: dict[str, frozenset[str]] = {}
    for line in found:
        if line.run_id:
            topics[line.run_id] = topics.get(line.run_id, frozenset()) | line.topics
    return topics


def keep_runs(
    run: RunRow,
    topics: frozenset[str],
    *,
    who: str | None,
    topic: str | None,
    state: str | None,
    run_id: str | None,
) -> bool:
    """Whether a run passes the filters; None passes all."""
    return (
        (who is None or run.who == who)
        and (topic is None or topic in topics)
        and (state is None or run.outcome == state)
        and (run_id is None or run.run_id == run_id)
    )


def address(run_id: str, cluster_id: str | None) -> str:
    """Of a run's page: in its own cluster, where the data folder still has that."""
    key = second_person.key_of(cluster_id)
    shown = {"cluster": key} if context.several() and key else {}
    return routes.address("purge", **shown, run=run_id)


def runs_table(
    found: Sequence[runs.Line],
    topics: Mapping[str, frozenset[str]],
    now: datetime,
    *,
    clusters: bool,
) -> None:
    """A row per line, newest first; the run's id leads to its page. `clusters`: of several."""
    of = [line.run for line in found]
    times = [f", {formats.number(line.count)} times" if line.count > 1 else "" for line in found]
    columns = {
        "Run": [address(run.run_id, run.cluster_id) for run in of],
        "State": [f"{RUN_WORDS[run.outcome]}{n}" for run, n in zip(of, times, strict=True)],
        "Queued (UTC)": [f"{run.queued_at:%Y-%m-%d %H:%M:%S}" for run in of],
        "Ago": [formats.age(run.queued_at, now) for run in of],
        "Who": [run.who for run in of],
        "Topics": [", ".join(sorted(topics.get(run.run_id, ()))) for run in of],
        "Freed": [_freed(line.freed_bytes) for line in found],
        "Approved by": [run.approved_by for run in of],
        "From": [run.from_where for run in of],
        "Mode": [run.mode for run in of],
        "Typed": [run.typed or None for run in of],
        "Plan": [run.plan_id for run in of],
    }
    if clusters:
        columns = {"Cluster": [context.called(r.cluster_id, r.cluster_name) for r in of], **columns}
    text, link = st.column_config.TextColumn, st.column_config.LinkColumn
    grid.show(
        pd.DataFrame(columns),
        {
            "Cluster": text(width=110),
            "Run": link(display_text=r"run=(.*)", width=165),
            "State": text(width=130, help="N times: so many runs of one policy went alike"),
            "Queued (UTC)": text(width=145),
            "Ago": text(width=60),
            "Who": text(width=160),
            "Topics": text(width=180),
            "Freed": text(width=80),
            "Approved by": text(width=100),
            "From": text(width=130),
            "Mode": text(width=130),
            "Typed": text(width=120),
            "Plan": text(width=130),
        },
        most=8,
        alt="Runs with state, time, person, topics, bytes freed, from where, mode and plan",
        key="audit-runs",
    )


def _freed(size_bytes: int | None) -> str:
    return formats.MISSING if size_bytes is None else formats.size(size_bytes)
