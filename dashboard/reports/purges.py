"""Purges that were done, predicted against freed, and the plan that the report goes with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dashboard.purge.journal.journal_rows import RunRow
from dashboard.purge.plan.plan import Plan, PlannedPartition
from dashboard.purge.plan.preview import preview
from dashboard.purge.receipt import calibration
from dashboard.reports.parts import (
    MOST_BARS,
    MOST_ROWS,
    Bar,
    Bars,
    Figure,
    Section,
    Table,
    Words,
    columns,
    known_sum,
    moment,
    number,
    size,
    text,
)
from dashboard.reports.source import Source
from dashboard.views import formats
from dashboard.views.colours import HELD, RECLAIMABLE, Meaning

_PREDICTED = Meaning("predicted", "#b3d6d2", "#0f766e", "#5eead4", "◇")
_FREED = Meaning("freed", "#0f766e", "#0f766e", "#5eead4", "◆")


def figures(source: Source) -> tuple[Figure, ...]:
    """What all purges freed so far."""
    freed, unknown = known_sum(_bytes(run, "freed_bytes") for run in source.runs)
    since = "" if source.begins is None else f", {source.begins.words}"
    if not source.runs:
        none = "no purge from this machine" if not since else f"no purge{since}"
        return (Figure("Freed by purges", Words("—"), none),)
    note = formats.plural(len(source.runs), "purge")
    if unknown:
        note += f", {unknown} not measured"
    note += since
    return (Figure("Freed by purges", size(freed, RECLAIMABLE), note),)


def section(source: Source) -> Section:
    """Runs of this cluster, newest first, and how true their predictions were."""
    name, title = "purges", "Purges done: predicted against freed"
    if not source.runs:
        said = "The journal of this machine knows no purge of this cluster."
        return Section(name, title, (text(said), *_since(source)))
    states = Counter(run.state for run in source.runs)
    counted = ", ".join(f"{formats.number(n)} {state}" for state, n in sorted(states.items()))
    freed, _ = known_sum(_bytes(run, "freed_bytes") for run in source.runs)
    says = text(
        f"{formats.plural(len(source.runs), 'purge')} ({counted}), {formats.size(freed)} freed. "
        "A receipt is final once every replica has arrived and its segments are gone, or nobody "
        "waits any longer for what its gap names."
    )
    shown, rest = source.runs[:MOST_ROWS], len(source.runs) - MOST_ROWS
    more = f"and {formats.number(rest)} more: see lowwater runs --export FILE.csv"
    heads = columns("Queued (UTC)", "Run", "Who", "Mode", "State", ">Predicted", ">Freed",
                    "Receipt", "Gap")  # fmt: skip
    table = Table(heads, tuple(map(_run, shown)), more=more if rest > 0 else "")
    tables = [table, *_estimators(source.runs)]
    charts = _charts(source.runs)
    return Section(name, title, (says, *_since(source)), charts, tuple(tables))


def _since(source: Source) -> tuple[tuple[Words, ...], ...]:
    """From when on purges count; nothing where the journal has all."""
    if source.begins is None:
        return ()
    return (text(f"Purges of this journal are {source.begins.words} (lowwater runs --archive)."),)


def _bytes(run: RunRow, name: str) -> int | None:
    return run.receipt.get(name) if run.receipt else None


def _run(run: RunRow) -> tuple[Words, ...]:
    receipt = "final" if run.receipt_final else ("open" if run.receipt else "none")
    gap = str((run.receipt or {}).get("gap") or "")
    return (
        moment(run.queued_at), Words(run.run_id), Words(run.who), Words(run.mode),
        Words(run.state), size(_bytes(run, "predicted_bytes")), size(_bytes(run, "freed_bytes")),
        Words(receipt), Words(gap),
    )  # fmt: skip


def _charts(runs: Sequence[RunRow]) -> tuple[Bars, ...]:
    told = [run for run in runs if _bytes(run, "freed_bytes") is not None][:MOST_BARS]
    bars = tuple(
        Bar(
            f"{run.queued_at:%m-%d %H:%M} {run.run_id[-6:]}",
            (
                (_PREDICTED, _bytes(run, "predicted_bytes") or 0),
                (_FREED, _bytes(run, "freed_bytes") or 0),
            ),
        )
        for run in told
    )
    chart = Bars("The newest purges", bars, side_by_side=True)
    return (chart,) if chart.longest else ()


def _estimators(runs: Sequence[RunRow]) -> list[Table]:
    lines = calibration.by_method(calibration.outcomes(runs))
    rows = tuple(
        (Words(line.method), number(line.purges), number(line.topics),
         Words(_share(line.median_error)), Words(_share(line.worst_error)),
         Words(f"{line.coverage:.0%}"))
        for line in lines
    )  # fmt: skip
    heads = columns("Estimator", ">Purges", ">Topics", ">Typical error", ">Worst error",
                    ">Inside its interval")  # fmt: skip
    return [Table(heads, rows, "How true the estimates were, by final receipts")] if rows else []


def _share(value: float | None) -> str:
    return formats.UNKNOWN if value is None else f"{value:.1%}"


def plan_section(source: Source) -> tuple[Section, ...]:
    """The plan that was named, by topic; nothing without one."""
    plan = source.plan
    if plan is None:
        return ()
    view = preview(plan, source.now)
    totals = view["totals"]
    says = text(
        f"Plan {plan.plan_id} of {plan.created_by} for {plan.cluster_name}, to {plan.target}: "
        f"{totals['free_partitions']} of {formats.plural(totals['partitions'], 'partition')} free, "
        f"{formats.number(totals['records'])} records at most, "
        f"{formats.size(totals['bytes_at_once'])} at once.",
        f"It is confirmed by the words “{plan.confirmation}”, and valid until "
        f"{formats.utc(plan.expires_at)}{' (expired)' if view['expired'] else ''}.",
    )
    topics = sorted({p.topic for p in plan.partitions})
    shown, rest = topics[:MOST_ROWS], len(topics) - MOST_ROWS
    of_topic: dict[str, list[PlannedPartition]] = {topic: [] for topic in topics}
    for partition in plan.partitions:
        of_topic[partition.topic].append(partition)
    rows = tuple(_planned(topic, of_topic[topic]) for topic in shown)
    heads = columns("Topic", ">Free partitions", ">Guarded", ">Records", ">At once", "Guards")
    more = f"and {formats.number(rest)} more topics: see lowwater preview" if rest > 0 else ""
    tables = (Table(heads, rows, more=more), *_lost(plan, view["groups"]))
    return (Section("plan", "The plan", (says,), tables=tables),)


def _planned(topic: str, partitions: Sequence[PlannedPartition]) -> tuple[Words, ...]:
    free = [p for p in partitions if p.free]
    records, _ = known_sum(p.records for p in free)
    once, _ = known_sum(p.estimate.bytes_at_once if p.estimate else None for p in free)
    guards = sorted({guard.name for p in partitions for guard in p.guards})
    return (Words(topic), number(len(free)), number(len(partitions) - len(free)), number(records),
            size(once, RECLAIMABLE), Words(", ".join(guards)))  # fmt: skip


def _lost(plan: Plan, groups: Sequence[dict[str, object]]) -> list[Table]:
    """Waived groups, and the range of records that each would lose."""
    reasons = {waiver.group_id: waiver for waiver in plan.waivers}
    rows = tuple(
        (Words(str(g["group_id"]), HELD), Words(f"{waiver.reason} ({waiver.by})"),
         Words(f"{g['loss_if_earliest']} to {g['loss_if_latest']}"))
        for g in groups
        if (waiver := reasons.get(str(g["group_id"]))) is not None
    )  # fmt: skip
    heads = columns("Waived group", "Why, and who said so", ">Records it would lose")
    return [Table(heads, rows, "Groups that no longer count")] if rows else []
