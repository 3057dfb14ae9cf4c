"""A plan on the page: totals, what each partition loses, who would lose what, and the guards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError
from dashboard.purge.evidence.estimates import archive_pace
from dashboard.purge.jobs import queue_refusals
from dashboard.purge.plan import words
from dashboard.purge.plan.plan import Plan, PlannedPartition
from dashboard.purge.plan.preview import GroupLoss, Preview, guards_counted, preview
from dashboard.settings.sections import Price, beside
from dashboard.ui.components import grid, markup
from dashboard.ui.components.markup import text
from dashboard.ui.purge.runs import open_journal
from dashboard.ui.session import access, context
from dashboard.views import formats

_REASONS = 8


def show(plan: Plan, *, handed_out: bool = True) -> None:
    """The preview, from the plan itself: what is shown is what would be sent; and as files, where
    it is `handed_out`.
    """
    view = preview(plan, utc_now(), archive_pace(context.settings(), plan))
    st.html(totals_html(view, context.settings().price.of(plan.cluster_name, plan.cluster_id)))
    markup.draw(losses_html(view))
    if len({p.topic for p in plan.partitions}) > 1:
        by_topic(plan.partitions)
    table(plan.partitions)
    markup.draw(guards_html(plan.partitions) + decisions_html(view))
    if handed_out:
        downloads(plan)


def downloads(plan: Plan) -> None:
    """The plan for `lowwater apply`, and its free targets for Kafka's own tool: of a plan that may
    still be queued, asked again at the click, since a page stays open and a request is kept.
    """
    why = _withheld(plan)
    with st.container(horizontal=True):
        st.download_button(
            "↓ Targets (JSON of Kafka's delete-records tool)",
            access.at_click(
                lambda: queue_refusals.offsets_json(
                    context.settings(), open_journal(), plan, utc_now()
                )
            ),
            file_name=f"offsets-{plan.plan_id}.json",
            mime="application/json",
            key="plan-offsets",
            type="tertiary",
            on_click="ignore",
            disabled=why is not None,
        )
        st.download_button(
            "↓ Plan file (for lowwater apply)",
            access.at_click(plan.to_json_text),
            file_name=f"plan-{plan.plan_id}.json",
            mime="application/json",
            key="plan-file",
            type="tertiary",
            on_click="ignore",
        )
    if why is not None and plan.free_partitions:
        st.caption(markup.plain(f"Its targets are not handed out: {why}."))


def _withheld(plan: Plan) -> str | None:
    try:
        queue_refusals.refuse_offsets(context.settings(), open_journal(), plan, utc_now())
    except RefusedError as error:
        return error.message
    return None


def totals_html(view: Preview, price: Price | None) -> str:
    """The totals over the free partitions; `price` tells what those bytes cost."""
    totals = view.totals
    free = totals.free_partitions
    unmeasured = totals.unmeasured_partitions
    missing = f", {unmeasured} not measured" if unmeasured else ""
    # The figure stands above: what is left says how sure it is, and what leaves later.
    told = words.freed(totals).partition(" at once")[2] if free else ""
    topics = formats.plural(totals.topics, "topic")
    cost = beside(price, totals.bytes_at_once if free else 0)
    cells = (
        (
            markup.size(totals.bytes_at_once if free else 0),
            f"at once{told}, over all replicas{missing}{text(cost)}",
        ),
        (formats.number(totals.records), "records at most, below the targets"),
        (formats.number(free), f"partitions of {topics}"),
        (formats.number(totals.guarded_partitions), "partitions guarded: nothing sent there"),
    )
    inner = "".join(f"<div><b>{figure}</b><small>{said}</small></div>" for figure, said in cells)
    return f'<div class="lw"><div class="lw-counts">{inner}</div></div>'


def by_topic(partitions: Sequence[PlannedPartition]) -> None:
    """One row per topic, most bytes first: what is free of it, and what guards the rest."""
    shown, unit = topics_frame(partitions)
    grid.show(
        shown,
        {
            "Free": st.column_config.TextColumn(help="Partitions without a guard, of all"),
            "Records": st.column_config.TextColumn(alignment="right"),
            f"At once ({unit})": st.column_config.NumberColumn(format="%.2f"),
        },
        most=8,
        alt="Topics of the plan with free partitions, records, bytes at once and guards",
        key="plan-topics-table",
    )


def topics_frame(partitions: Sequence[PlannedPartition]) -> tuple[pd.DataFrame, str]:
    """The partitions rolled up by topic, and the unit of bytes; they count where they are free."""
    topics: dict[str, list[PlannedPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    free = {topic: [p for p in rows if not p.guards] for topic, rows in topics.items()}
    once = {topic: _known_at_once(rows) for topic, rows in free.items()}
    listed = sorted(topics, key=lambda topic: (-(once[topic] or 0), topic))
    unit, divisor = formats.common_unit(once.values())
    return pd.DataFrame(
        {
            "Topic": listed,
            "Free": [f"{len(free[t])} of {len(topics[t])}" for t in listed],
            "Records": [formats.number(sum(p.records or 0 for p in free[t])) for t in listed],
            f"At once ({unit})": [
                None if (size := once[t]) is None else size / divisor for t in listed
            ],
            "Guards": [
                ", ".join(sorted({g.name for p in topics[t] for g in p.guards})) for t in listed
            ],
        }
    ), unit


def _known_at_once(free: Sequence[PlannedPartition]) -> int | None:
    """None where there are free partitions and none of them is measured."""
    sizes = [p.estimate.bytes_at_once for p in free if p.estimate is not None]
    known = [size for size in sizes if size is not None]
    return sum(known) if known or not free else None


def table(partitions: Sequence[PlannedPartition]) -> None:
    """One row per partition, free ones first."""
    rows = sorted(partitions, key=lambda p: (bool(p.guards), p.topic, p.partition))
    sizes = [p.estimate.bytes_at_once if p.estimate else None for p in rows]
    unit, divisor = formats.common_unit(sizes)
    shown = pd.DataFrame(
        {
            "Topic": [p.topic for p in rows],
            "Partition": [p.partition for p in rows],
            "Log start": [formats.number(p.log_start_offset) for p in rows],
            "→ target": [formats.number(p.target_offset) for p in rows],
            "High watermark": [formats.number(p.high_watermark) for p in rows],
            "Records": [formats.number(p.records) for p in rows],
            f"At once ({unit})": [None if size is None else size / divisor for size in sizes],
            "Measured by": [p.estimate.method if p.estimate else formats.MISSING for p in rows],
            "Guards": [_guards(p) for p in rows],
        }
    )
    text_column, number = st.column_config.TextColumn, st.column_config.NumberColumn
    right = ("Log start", "→ target", "High watermark", "Records")
    config: dict[str, Any] = {name: text_column(alignment="right") for name in right}
    config[f"At once ({unit})"] = number(format="%.2f")
    grid.show(
        shown,
        config,
        alt="Partitions of the plan with log start, target, records, bytes at once and guards",
        key="plan-table",
    )


def losses_html(view: Preview) -> str:
    """In amber: who would lose records, as a range, since Kafka shows nobody's reset policy."""
    moving = {w.group_id for w in view.plan.waivers if w.move}
    lines = "".join(
        f"<p>⚠ <b>{text(g.group_id)}</b>{_waived(g)} would lose {_lost(g, moving)}</p>"
        for g in view.groups
        if g.loss_if_latest
    )
    waived = {g.group_id for g in view.groups if g.waived and g.loss_if_latest}
    if waived - moving:
        lines += (
            "<p><small>A dead group can resume at the target instead: tick “Move the waived "
            "groups' offsets” in step 1.</small></p>"
        )
    return f'<div class="lw lw-state warn" role="note">{lines}</div>' if lines else ""


def _lost(group: GroupLoss, moving: Collection[str]) -> str:
    least = formats.number(group.loss_if_earliest)
    if group.group_id in moving:
        return f"<b>{least}</b> unread records; its offset is moved, and it resumes at the target."
    return (
        f"<b>{least}</b> unread records if it resets to earliest, "
        f"<b>{formats.number(group.loss_if_latest)}</b> if it resets to latest."
    )


def guards_html(partitions: Sequence[PlannedPartition]) -> str:
    """Each guard's words once, with how many partitions it blocks."""
    listed = guards_counted(partitions)
    lines = "".join(
        f"<p><b>⊘ {text(guard.name)}</b>, {formats.plural(count, 'partition')}: "
        f'{text(guard.reason)} <span class="quiet">{text(guard.lift)}</span></p>'
        for guard, count in listed[:_REASONS]
    )
    rest = len(listed) - _REASONS
    if rest > 0:
        lines += f"<p><small>and {formats.plural(rest, 'reason')} more of the same kind</small></p>"
    return f'<div class="lw">{lines}</div>' if lines else ""


def decisions_html(view: Preview) -> str:
    """What was decided by name: waivers, lifted guards, declared readers; what no group's offset
    covers; whether anybody looked for readers that never commit; and targets that were lowered.
    """
    plan = view.plan
    lines = [
        f"<p>Waived <b>{text(w.group_id)}</b>: {text(w.reason)} "
        f"({text(w.by)}){', its offsets move to the target' if w.move else ''}"
        f"{_ALIVE if w.alive else ''}</p>"
        for w in plan.waivers
    ]
    lines += [
        f"<p>Lifted <b>{text(o.name)}</b>"
        f"{' for ' + text(o.group_id) if o.group_id else ''}: {text(o.reason)} "
        f"({text(o.by)})</p>"
        for o in plan.overrides
    ]
    told = words.rights_missing(plan.rights_missing) + words.to_keep(view.archive)
    told += words.coverage(view.coverage)
    told += words.declared(plan.declarations)
    told += words.unseen_readers(plan.unseen_readers)
    told += words.capped(plan.partitions)
    told += words.tiers(plan.partitions)
    lines += [f"<p>{text(sentence)}.</p>" for sentence in told]
    return f'<div class="lw">{"".join(lines)}</div>' if lines else ""


def _guards(partition: PlannedPartition) -> str:
    names = [guard.name for guard in partition.guards]
    return "⊘ " + ", ".join(names) if names else "✔ free"


_ALIVE = ". <b>⚠ It is alive: it has members now, and goes on reading.</b>"


def _waived(group: GroupLoss) -> str:
    return f" (waived: {text(group.reason or '')})" if group.waived else ""
