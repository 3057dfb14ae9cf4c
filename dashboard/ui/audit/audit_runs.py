"""The audited runs as a table: who, when, from where, how, by which plan and typed sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import pandas as pd
import streamlit as st

from dashboard.purge.journal.journal_rows import RunRow
from dashboard.ui.audit.timeline import Line
from dashboard.ui.components import grid
from dashboard.ui.purge.runs import RUN_WORDS
from dashboard.views import formats


def topics_by_run(found: Sequence[Line]) -> dict[str, frozenset[str]]:
    """The topics that each run's entries name."""
    topics: dict[str, frozenset[str]] = {}
    for line in found:
        if line.run_id:
            topics[line.run_id] = topics.get(line.run_id, frozenset()) | line.topics
    return topics


def keep(
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


def table(runs: Sequence[RunRow], topics: Mapping[str, frozenset[str]], now: datetime) -> None:
    """One row per run, newest first; the run's id leads to its page."""
    shown = pd.DataFrame(
        {
            "Run": [f"purge?run={run.run_id}" for run in runs],
            "State": [RUN_WORDS[run.outcome] for run in runs],
            "Queued (UTC)": [f"{run.queued_at:%Y-%m-%d %H:%M:%S}" for run in runs],
            "Ago": [formats.age(run.queued_at, now) for run in runs],
            "Who": [run.who for run in runs],
            "Approved by": [run.approved_by for run in runs],
            "From": [run.from_where for run in runs],
            "Mode": [run.mode for run in runs],
            "Typed": [run.typed or None for run in runs],
            "Plan": [run.plan_id for run in runs],
            "Topics": [", ".join(sorted(topics.get(run.run_id, ()))) for run in runs],
        }
    )
    text, link = st.column_config.TextColumn, st.column_config.LinkColumn
    grid.show(
        shown,
        {
            "Run": link(display_text=r"run=(.*)", width=165),
            "State": text(width=90),
            "Queued (UTC)": text(width=145),
            "Ago": text(width=60),
            "Who": text(width=160),
            "Approved by": text(width=100),
            "From": text(width=130),
            "Mode": text(width=130),
            "Typed": text(width=120),
            "Plan": text(width=130),
            "Topics": text(width=110),
        },
        most=8,
        alt="Runs with state, time, person, from where, mode, typed sentence, plan and topics",
        key="audit-runs",
    )
