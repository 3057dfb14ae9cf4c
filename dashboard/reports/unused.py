"""What nobody uses: topics without writes and readers for days."""

from __future__ import annotations

from typing import Any

from dashboard.idle import IDLE, apart, headline, idle, sure
from dashboard.reports.parts import (
    Section,
    Table,
    Words,
    capped,
    columns,
    moment,
    named,
    number,
    size,
    text,
)
from dashboard.reports.source import Source


def idle_section(source: Source) -> tuple[Section, ...]:
    """Idle topics, largest first, as the analysis judged them; none where each was written to, and
    of an older release's analysis.
    """
    rows = source.rows("idle_topics")
    if not rows:
        return ()
    found = idle(rows, rows[0]["idle_days"])
    says = [text(headline(found))]
    if found.deletable:
        says.append(text(
            "A reader without a group is seen by nothing but broker metrics: ask a topic's owner "
            "before you delete it. lowwater idle prints the lines."
        ))  # fmt: skip
    return (Section("idle", "Topics that nobody uses", tuple(says), (), _tables(found.of(IDLE))),)


def _tables(rows: list[dict[str, Any]]) -> tuple[Table, ...]:
    if not rows:
        return ()
    shown, more = capped(rows, "idle_topics")
    heads = columns("Topic", "Kind", ">On disk", "Quiet since (UTC)", ">Groups",
                    "Last commit (UTC)", "Sure by", "Owner", "Not proposed")  # fmt: skip
    cells = tuple(
        (Words(r["topic"]), Words(r["tool"] or r["kind"] or "unknown"), size(r["size_bytes"]),
         moment(r["quiet_since"]), number(r["groups"]), moment(r["last_commit_at"]),
         Words(sure(r)), named(r["owner"] or ""), Words(apart(r) or ""))
        for r in shown
    )  # fmt: skip
    return (Table(heads, cells, more=more),)
