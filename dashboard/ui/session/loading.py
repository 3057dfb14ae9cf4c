"""Tables derived from the findings, computed once per analysis and shared by all sessions."""

from __future__ import annotations

import shlex

import pyarrow as pa

from dashboard.core.errors import StoreError
from dashboard.ui.session.context import Screen
from dashboard.ui.session.held_tables import Tables
from dashboard.views.facts import partition_facts
from dashboard.views.topic_rows import TopicRow, topic_rows


def findings_of(screen: Screen) -> Tables:
    """The analysis' tables. Raises StoreError NO_ANALYSIS when there is none yet."""
    if screen.findings is None:
        raise StoreError(
            f"cluster {screen.cluster.name} has no analysis yet",
            f"Run: lowwater analyze --data {shlex.quote(screen.settings.data)}",
            code="NO_ANALYSIS",
        )
    return screen.findings


def facts_of(screen: Screen, target: str = "committed") -> pa.Table:
    """One row per partition for `target`, with the flags consumed and free."""
    found = findings_of(screen)
    return found.derived(
        f"facts {target}", lambda: partition_facts(found.table("reclaimable"), target)
    )


def rows_of(screen: Screen) -> list[TopicRow]:
    """One row per topic of the committed target."""
    found = findings_of(screen)
    return found.derived("rows", lambda: topic_rows(facts_of(screen)))
