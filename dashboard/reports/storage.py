"""The storage report: what a manager forwards and an operator acts on, put together."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dashboard.reports import disks, faults, space, unused
from dashboard.reports import space
from dashboard.reports.parts import Report, named
from dashboard.reports.source import Source
from dashboard.reports.space import Space
from dashboard.views import formats


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
        figures=(*found.figures(), *disks.figures(source), *space.figures(source)),
        next_steps=next_steps(found),
        sections=(
            space.topics_section(found),
            space.blockers_section(source),
            *unused.idle_section(source),
            *unused.retention_section(source),
            *space.plan_section(source),
            disks.section(source),
            faults.orphans_section(source),
            faults.followers_section(source),
            space.section(source),
            faults.quality_section(source),
        ),
    )


# What a reader does first with a storage report.

_MOST_NAMED = 6


def next_steps(space: Space) -> tuple[str, ...]:
    """Sentences, the surest bytes first; empty where there is nothing to do."""
    numbers, steps = space.numbers, []
    if numbers.safe_topics:
        steps.append(
            f"Plan a purge of {_topics(numbers.safe_topics)} whose readers are declared, "
            f"{formats.size(space.declared)}: {_plan_line(numbers.safe_topics)}"
        )
    if numbers.waive_group and numbers.waive_bytes:
        group = named(numbers.waive_group).text
        steps.append(
            f"Ask whose group {group} is, and whether it may be waived: it alone holds back "
            f"{formats.size(numbers.waive_bytes)}."
        )
    if numbers.undeclared_topics and space.consumed is not None:
        more = space.consumed - (space.declared or 0)
        steps.append(
            f"Declare the readers of {_topics(numbers.undeclared_topics)}: {formats.size(more)} "
            f"wait for it ({_named(numbers.undeclared_topics)})."
        )
    system = {row.topic for row in space.topics if "system-topic" in row.guards}
    unread = [topic for topic in numbers.uncommitted_topics if topic not in system]
    if unread:
        steps.append(
            f"Find out who reads {_topics(unread)} without any committed group: what may go there "
            f"is unknown ({_named(unread)})."
        )
    return tuple(steps)


def _topics(topics: Sequence[str]) -> str:
    return formats.plural(len(topics), "topic")


def _plan_line(topics: Sequence[str]) -> str:
    if len(topics) > _MOST_NAMED:
        return "page Overview, button Plan the safest."
    flags = " ".join(f"--topic {shlex.quote(topic)}" for topic in topics)
    return f"lowwater plan {flags} --to committed --out plan.json"


def _named(topics: Sequence[str]) -> str:
    shown = ", ".join(topics[:_MOST_NAMED])
    rest = len(topics) - _MOST_NAMED
    return f"{shown} and {formats.number(rest)} more" if rest > 0 else shown
