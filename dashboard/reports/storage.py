"""The storage report: what a manager forwards and an operator acts on, put together."""

from __future__ import annotations

from dashboard.reports import disks, faults, purges, space, unused
from dashboard.reports.next_steps import next_steps
from dashboard.reports.parts import Report
from dashboard.reports.source import Source


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
        figures=(*found.figures(), *disks.figures(source), *purges.figures(source)),
        next_steps=next_steps(found),
        sections=(
            space.topics_section(found),
            space.blockers_section(source),
            *unused.idle_section(source),
            *unused.retention_section(source),
            *purges.plan_section(source),
            disks.section(source),
            faults.orphans_section(source),
            faults.followers_section(source),
            purges.section(source),
            faults.quality_section(source),
        ),
    )
