"""The storage report: what a manager forwards and an operator acts on, put together."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dashboard.core.arrow import records
from dashboard.reports import faults, space
from dashboard.reports.parts import (
    Figure,
    Report,
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
from dashboard.reports.space import Space
from dashboard.topics.idle import IDLE, Idle, IdleTopic, headline, idle, sure
from dashboard.topics.retention_fit import SHORTER, RetentionFit, in_order, span
from dashboard.topics.retention_fit import headline as retention_headline
from dashboard.views.headline import next_steps as steps_of


def storage_report(source: Source) -> Report:
    """The whole report of one analysis; pure but for reading the findings. Raises StoreError."""
    found = space.Space(source)
    snapshot = source.snapshot
    return Report(
        cluster_name=source.cluster_name,
        cluster_id=source.cluster_id,
        snapshot_id=source.snapshot_id,
        analysis_id=source.analysis.id,
        taken_at=snapshot.taken_at if snapshot else source.analysis.taken_at,
        made_at=source.now,
        brokers=faults.brokers_said(source),
        warnings=faults.warnings(source),
        headline=found.sentence(),
        headline_note=found.note(),
        figures=(*figures(source, found), *space.figures(source)),
        next_steps=next_steps(found),
        sections=(
            space.topics_section(found),
            space.blockers_section(source),
            *idle_section(source),
            *retention_section(source),
            *space.plan_section(source),
            faults.section(source),
            faults.orphans_section(source),
            faults.followers_section(source),
            space.section(source),
            faults.quality_section(source),
        ),
    )


def figures(source: Source, found: Space | None = None) -> tuple[Figure, ...]:
    """The large numbers of topics and disks, as Overview shows them too; `found` of this source."""
    return (*(found or Space(source)).figures(), *faults.figures(source))


# What a reader does first with a storage report.

_MOST_NAMED = 6


def next_steps(space: Space) -> tuple[str, ...]:
    """The sentences of Overview; the first one with its line to run."""
    steps = steps_of(space.numbers, space.topics, space.price)
    return tuple(
        f"{step.said}: {_plan_line(step.names)}" if step.kind == "purge" else f"{step.said}."
        for step in steps
    )


def _plan_line(topics: Sequence[str]) -> str:
    if len(topics) > _MOST_NAMED:
        return "page Overview, button Plan the safest."
    flags = " ".join(f"--topic {shlex.quote(topic)}" for topic in topics)
    return f"lowwater plan {flags} --to committed --out plan.json"


# What is kept for nobody: idle topics, and retention beyond what readers need.


def idle_section(source: Source) -> tuple[Section, ...]:
    """Idle topics, largest first, as the analysis judged them; none where each was written to, and
    of an older release's analysis.
    """
    rows = records(source.read("idle_topics"), IdleTopic)
    if not rows:
        return ()
    found = idle(rows, rows[0].idle_days, source.age.unusable, source.ask)
    says = [text(f"{source.age.said}: {headline(found, source.price)}")]
    if source.age.unusable:
        says.append(text(f"No topic is proposed: {source.age.unusable}."))
    if found.deletable:
        says.append(text(
            "A reader without a group is seen by nothing but broker metrics: ask a topic's owner "
            "before you delete it. lowwater idle prints the lines."
        ))  # fmt: skip
    return (Section("idle", "Topics that nobody uses", tuple(says), (), _tables(found)),)


def _tables(found: Idle) -> tuple[Table, ...]:
    rows = found.of(IDLE)
    if not rows:
        return ()
    shown, more = capped(rows, "idle_topics")
    heads = columns("Topic", "Kind", ">On disk", "Quiet since (UTC)", ">Groups",
                    "Last commit (UTC)", "Sure by", "Owner", "Not proposed")  # fmt: skip
    cells = tuple(
        (Words(r.topic), Words(r.tool or r.kind or "unknown"), size(r.size_bytes),
         moment(r.quiet_since), number(r.groups), moment(r.last_commit_at),
         Words(sure(r)), named(r.owner or ""), Words(found.not_proposed(r) or ""))
        for r in shown
    )  # fmt: skip
    return (Table(heads, cells, more=more),)


def retention_section(source: Source) -> tuple[Section, ...]:
    """Topics that may keep records for less, most freed first; none where no readers are declared,
    and of an older release's analysis.
    """
    rows = in_order(records(source.read("retention_fit"), RetentionFit))
    if not rows:
        return ()
    says = [text(f"{source.age.said}: {retention_headline(rows, source.price)}")]
    shorter = [row for row in rows if row.verdict == SHORTER]
    if source.age.unusable:
        says.append(text(f"None is proposed: {source.age.unusable}."))
    elif shorter:
        says.append(text(
            f"A retention fits at {rows[0].margin:g} times the longest lag that was seen. "
            "Nothing is changed: lowwater retention prints the lines."
        ))  # fmt: skip
    name, title = "retention", "Retention that fits its readers"
    return (Section(name, title, tuple(says), (), _retentions(shorter)),)


def _retentions(rows: list[RetentionFit]) -> tuple[Table, ...]:
    if not rows:
        return ()
    shown, more = capped(rows, "retention_fit")
    heads = columns("Topic", ">Longest lag", ">Kept now", ">Would fit", ">Frees", ">At least",
                    ">At most", ">On disk", "Owner")  # fmt: skip
    cells = tuple(
        (Words(r.topic), Words(span(r.lag_high_ms)), Words(span(r.retention_ms)),
         Words(span(r.fits_ms)), size(r.freed_likely_bytes), size(r.freed_low_bytes),
         size(r.freed_high_bytes), size(r.size_bytes), named(r.owner or ""))
        for r in shown
    )  # fmt: skip
    return (Table(heads, cells, more=more),)
