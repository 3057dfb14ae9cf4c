"""What can be given back, by topic, and which groups hold the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import records
from dashboard.core.words import first_letter_up
from dashboard.purge.journal.rows import RunRow
from dashboard.purge.plan.plan import Plan, PlannedPartition
from dashboard.purge.plan.preview import GroupLoss, preview
from dashboard.purge.receipt.gap import by_method, outcomes
from dashboard.reports.parts import (
    MOST_BARS,
    MOST_ROWS,
    Bar,
    Bars,
    Figure,
    Section,
    Table,
    Words,
    capped,
    columns,
    known_sum,
    moment,
    named,
    number,
    size,
    text,
)
from dashboard.reports.source import Source
from dashboard.settings.sections import beside
from dashboard.store.finding_rows import Blocker
from dashboard.views import formats
from dashboard.views.colours import HELD, LIVE, ORPHAN, RECLAIMABLE, UNKNOWN, Meaning
from dashboard.views.facts import partition_facts
from dashboard.views.headline import Headline, blockers_by_group, headline, unknown_blockers
from dashboard.views.topic_rows import CAPPED, TopicRow, topic_rows

_OTHER = Meaning("needed, guarded or unknown", LIVE.fill, LIVE.on_light, LIVE.on_dark, LIVE.icon)


class Space:
    """The committed target's partitions, rolled up; None stands for sums of which nothing is known.

    Bytes are summed over replicas; `unmeasured` are consumed partitions without any. `facts` where
    they are in memory already.
    """

    def __init__(self, source: Source, facts: pa.Table | None = None) -> None:
        self.price = source.price
        self.facts = partition_facts(source.read("reclaimable")) if facts is None else facts
        self.topics = topic_rows(self.facts)
        self.numbers: Headline = headline(self.facts, source.read("blockers"), source.read("disks"))
        consumed = self.facts.filter(self.facts["consumed"])
        self.consumed, self.unmeasured = known_sum(consumed["bytes_likely"].to_pylist())
        self.low, _ = known_sum(consumed["bytes_low"].to_pylist())
        self.high, _ = known_sum(consumed["bytes_high"].to_pylist())
        self.at_once, _ = known_sum(consumed["bytes_at_once"].to_pylist())
        free = self.facts.filter(self.facts["free"])
        self.declared, _ = known_sum(free["bytes_likely"].to_pylist())
        self.on_disk, _ = known_sum(row.size_bytes for row in self.topics)
        self.held, self.held_unknown = known_sum(row.held_bytes for row in self.topics)
        self.records = int(pc.sum(consumed["records"]).as_py() or 0)
        self.orphans = _orphan_bytes(source.read("disks"))

    def sentence(self) -> tuple[Words, ...]:
        """The headline, as on the page Overview."""
        if not self.topics:
            return text("The cluster has no topics: there is nothing to give back.")
        if self.consumed is None:
            return text(
                "How many bytes can be given back is unknown: no replica's size could be read.",
                f"Every known group has passed {formats.number(self.records)} records at most.",
            )
        if self.numbers.nothing:
            return text(f"Nothing can be given back: {self.numbers.why_nothing(())}")
        said = [
            size(self.consumed, RECLAIMABLE),
            Words(" are consumed by every known group, "),
            size(self.declared, RECLAIMABLE),
            Words(" of it in topics whose readers are declared."),
        ]
        if self.numbers.waive_group:
            said += [
                Words(f" {first_letter_up(self.numbers.waive_least)}"),
                size(self.numbers.waive_bytes, HELD),
                Words(" more would leave at once if "),
                named(self.numbers.waive_group, HELD), Words(" were waived."),
            ]  # fmt: skip
        if self.orphans:
            said += [Words(" "), size(self.orphans, ORPHAN), Words(" in orphans.")]
        return tuple(said)

    def note(self) -> str:
        """How sure it is, and when the bytes leave."""
        if self.consumed is None or self.numbers.nothing:
            return ""
        said = (
            f"Between {formats.size(self.low)} and {formats.size(self.high)}, all replicas "
            f"together. {formats.size(self.at_once)} leave at once, in whole segments; the rest "
            "as active segments roll."
        )
        if self.price and (cost := self.price.a_month(self.consumed)):
            said += f" To keep what is consumed costs about {cost}."
        if self.unmeasured:
            count = formats.plural(self.unmeasured, "partition")
            said += f" {count} more could not be measured and are not in it."
        if self.numbers.guarded:
            said += f" {self.numbers.guards_said}."
        return said

    def figures(self) -> tuple[Figure, ...]:
        """The large numbers of topics."""
        topics = formats.plural(len(self.topics), "topic")
        unknown = f"{formats.plural(self.held_unknown, 'topic')} unknown"
        cost = beside(self.price, self.consumed)
        capped = sum(row.capped_bytes for row in self.topics)
        by = f"{formats.size(capped)} of it by {CAPPED}" if capped else "by groups"
        held_note = unknown if self.held_unknown else by
        return (
            Figure("On disk", size(self.on_disk), f"{topics}, all replicas"),
            Figure("Reclaimable", size(self.consumed, RECLAIMABLE), f"read by every group{cost}"),
            Figure("Readers declared", size(self.declared, RECLAIMABLE), "of it, safe to plan"),
            Figure("Held back", size(self.held, HELD), held_note),
        )


def _orphan_bytes(disks: pa.Table) -> int | None:
    """As far as they are measured; None where no disk tells any."""
    values = [*disks["stray_bytes"].to_pylist(), *disks["orphan_bytes"].to_pylist()]
    return known_sum(values)[0]


def topics_section(space: Space) -> Section:
    """The topics with most to give back, as bars and as a table."""
    name, title = "topics", "What can be given back, by topic"
    if not space.topics:
        return Section(name, title, (text("The cluster has no topics."),))
    shown, more = capped(space.topics, "reclaimable")
    rows = tuple(
        (
            Words(row.topic),
            size(row.size_bytes),
            size(row.reclaimable_bytes, RECLAIMABLE if row.consumed_bytes else None),
            size(row.at_once_bytes),
            size(row.held_bytes),
            named(row.holder),
            Words(row.owner or ("" if row.readers_declared else "not declared")),
            Words(", ".join(row.guards)),
        )
        for row in shown
    )
    heads = columns("Topic", ">On disk", ">Reclaimable", ">At once", ">Held back",
                    "Held by most", "Owner", "Guards")  # fmt: skip
    bars = [_bar(row) for row in space.topics[:MOST_BARS] if row.size_bytes]
    rest = len(space.topics) - len(bars)
    title_of = f"The {len(bars)} topics with most to give back" if rest > 0 else "All topics"
    says = text(
        "Bytes over all replicas. What every known group has passed can be given back; guards say "
        "what else stands in the way of a purge."
    )
    charts = (Bars(f"{title_of}: bytes on disk, and whose they are", tuple(bars)),)
    return Section(name, title, (says,), charts if bars else (), (Table(heads, rows, more=more),))


def _bar(row: TopicRow) -> Bar:
    given, held = row.consumed_bytes, row.held_bytes or 0
    rest = max(0, (row.size_bytes or 0) - given - held)
    kind = _OTHER if row.reclaimable_bytes is not None or row.guards else UNKNOWN
    return Bar(row.topic, ((RECLAIMABLE, given), (HELD, held), (kind, rest)))


def blockers_section(source: Source) -> Section:
    """Groups by the bytes that they alone hold back, and what waiving each would free."""
    name, title = "blockers", "Who holds the rest back"
    table = source.read("blockers")
    groups = blockers_by_group(table, table.num_rows, "bytes_held_alone")
    by_group: dict[str, list[Blocker]] = {}
    for row in records(table, Blocker):
        by_group.setdefault(row.group_id, []).append(row)
    alone = [(group, held) for group, held in groups if held > 0]
    if not alone and unknown_blockers(table):
        said = "What groups hold back is unknown: no replica's size could be read."
        return Section(name, title, (text(said),))
    if not alone:
        return Section(name, title, (text("No group alone holds anything back."),))
    shown, more = capped(alone, "blockers")
    rows = tuple(_blocker(group, by_group[group], source) for group, _ in shown)
    heads = columns("Group", ">Freed if waived", ">Topics", "State", ">Members",
                    "Last commit (UTC)", "Silent for")  # fmt: skip
    freeing = [found for found in blockers_by_group(table, MOST_BARS) if found[1] > 0]
    bars = tuple(Bar(group, ((HELD, freed),)) for group, freed in freeing)
    missed = sum(row.unmeasured or 0 for of_group in by_group.values() for row in of_group)
    says = text(
        f"{formats.plural(len(alone), 'group')} hold back bytes that every other group has passed.",
        "A group counts at its last known offset until it is waived by name and reason, even when "
        "it is gone today. Where it is a topic's only one, waiving it frees nothing by itself.",
        *([f"Of {formats.plural(missed, 'partition')} that are held back no bytes are known: they "
           "are in none of these numbers."] if missed else []),
    )  # fmt: skip
    chart = Bars("Bytes that waiving one group alone would free", bars)
    charts = (chart,) if bars else ()
    return Section(name, title, (says,), charts, (Table(heads, rows, more=more),))


def _blocker(group: str, rows: Sequence[Blocker], source: Source) -> tuple[Words, ...]:
    freed, _ = known_sum(row.bytes_freed_if_waived for row in rows)
    commits = [row.last_commit_at for row in rows if row.last_commit_at is not None]
    last = max(commits, default=None)
    taken_at = source.analysis.taken_at
    silent = formats.duration(taken_at - last) if last else formats.UNKNOWN
    state = rows[0].group_state or formats.UNKNOWN
    holding = sum((row.bytes_held_alone or 0) > 0 for row in rows)
    members = number(rows[0].members)
    return (Words(group), size(freed, HELD), number(holding), Words(state), members,
            moment(last), Words(silent))  # fmt: skip


# Purges that were done, predicted against freed, and the plan that the report goes with.

_PREDICTED = Meaning("predicted", "#b3d6d2", "#0f766e", "#5eead4", "◇")
_FREED = Meaning("freed", "#0f766e", "#0f766e", "#5eead4", "◆")


def figures(source: Source) -> tuple[Figure, ...]:
    """What all purges freed so far."""
    freed, unknown = known_sum(_freed(run) for run in source.runs)
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
    states = Counter(run.outcome for run in source.runs)
    counted = ", ".join(f"{formats.number(n)} {state}" for state, n in sorted(states.items()))
    freed, _ = known_sum(_freed(run) for run in source.runs)
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


def _predicted(run: RunRow) -> int | None:
    return run.receipt.predicted_bytes if run.receipt else None


def _freed(run: RunRow) -> int | None:
    return run.receipt.freed_bytes if run.receipt else None


def _run(run: RunRow) -> tuple[Words, ...]:
    receipt = "final" if run.receipt_final else ("open" if run.receipt else "none")
    gap = (run.receipt.gap if run.receipt else None) or ""
    return (
        moment(run.queued_at), Words(run.run_id), Words(run.who), Words(run.mode),
        Words(run.outcome), size(_predicted(run)), size(_freed(run)),
        Words(receipt), Words(gap),
    )  # fmt: skip


def _charts(runs: Sequence[RunRow]) -> tuple[Bars, ...]:
    told = [run for run in runs if _freed(run) is not None][:MOST_BARS]
    bars = tuple(
        Bar(
            f"{run.queued_at:%m-%d %H:%M} {run.run_id[-6:]}",
            (
                (_PREDICTED, _predicted(run) or 0),
                (_FREED, _freed(run) or 0),
            ),
        )
        for run in told
    )
    chart = Bars("The newest purges", bars, side_by_side=True)
    return (chart,) if chart.longest else ()


def _estimators(runs: Sequence[RunRow]) -> list[Table]:
    lines = by_method(outcomes(runs))
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
    totals = view.totals
    says = text(
        f"Plan {plan.plan_id} of {plan.created_by} for {plan.called}, to {plan.target}: "
        f"{totals.free_partitions} of {formats.plural(totals.partitions, 'partition')} free, "
        f"{formats.number(totals.records)} records at most, "
        f"{formats.size(totals.bytes_at_once)} at once.",
        f"It is confirmed by the words “{plan.confirmation}”, and valid until "
        f"{formats.utc(plan.expires_at)}{' (expired)' if view.expired else ''}.",
    )
    topics = sorted({p.topic for p in plan.partitions})
    shown, rest = topics[:MOST_ROWS], len(topics) - MOST_ROWS
    of_topic: dict[str, list[PlannedPartition]] = {topic: [] for topic in topics}
    for partition in plan.partitions:
        of_topic[partition.topic].append(partition)
    rows = tuple(_planned(topic, of_topic[topic]) for topic in shown)
    heads = columns("Topic", ">Free partitions", ">Guarded", ">Records", ">At once", "Guards")
    more = f"and {formats.number(rest)} more topics: see lowwater preview" if rest > 0 else ""
    tables = (Table(heads, rows, more=more), *_lost(plan, view.groups))
    return (Section("plan", "The plan", (says,), tables=tables),)


def _planned(topic: str, partitions: Sequence[PlannedPartition]) -> tuple[Words, ...]:
    free = [p for p in partitions if p.free]
    records, _ = known_sum(p.records for p in free)
    once, _ = known_sum(p.estimate.bytes_at_once if p.estimate else None for p in free)
    guards = sorted({guard.name for p in partitions for guard in p.guards})
    return (Words(topic), number(len(free)), number(len(partitions) - len(free)), number(records),
            size(once, RECLAIMABLE), Words(", ".join(guards)))  # fmt: skip


def _lost(plan: Plan, groups: Sequence[GroupLoss]) -> list[Table]:
    """Waived groups, and the range of records that each would lose."""
    reasons = {waiver.group_id: waiver for waiver in plan.waivers}
    rows = tuple(
        (Words(g.group_id, HELD), Words(f"{waiver.reason} ({waiver.by})"),
         Words(f"{g.loss_if_earliest} to {g.loss_if_latest}"))
        for g in groups
        if (waiver := reasons.get(g.group_id)) is not None
    )  # fmt: skip
    heads = columns("Waived group", "Why, and who said so", ">Records it would lose")
    return [Table(heads, rows, "Groups that no longer count")] if rows else []
