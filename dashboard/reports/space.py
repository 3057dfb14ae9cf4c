"""What can be given back, by topic, and which groups hold the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.reports.parts import (
    MOST_BARS,
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
from dashboard.views import formats
from dashboard.views.colours import HELD, LIVE, ORPHAN, RECLAIMABLE, UNKNOWN, Meaning
from dashboard.views.facts import partition_facts
from dashboard.views.headline import Headline, blockers_by_group, headline, unknown_blockers
from dashboard.views.topic_rows import TopicRow, topic_rows

_OTHER = Meaning("needed, guarded or unknown", LIVE.fill, LIVE.on_light, LIVE.on_dark, LIVE.icon)


class Space:
    """The committed target's partitions, rolled up; None stands for sums of which nothing is known.

    Bytes are summed over replicas; `unmeasured` are consumed partitions without any.
    """

    def __init__(self, source: Source) -> None:
        self.facts = partition_facts(source.read("reclaimable"))
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
                Words(" "), size(self.numbers.waive_bytes, HELD),
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
        held_note = unknown if self.held_unknown else "by groups"
        return (
            Figure("On disk", size(self.on_disk), f"{topics}, all replicas"),
            Figure("Reclaimable", size(self.consumed, RECLAIMABLE), "read by every group"),
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
            named(row.held_by or ""),
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
    by_group: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        by_group.setdefault(row["group_id"], []).append(row)
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
    says = text(
        f"{formats.plural(len(alone), 'group')} hold back bytes that every other group has passed.",
        "A group counts at its last known offset until it is waived by name and reason, even when "
        "it is gone today. Where it is a topic's only one, waiving it frees nothing by itself.",
    )
    chart = Bars("Bytes that waiving one group alone would free", bars)
    charts = (chart,) if bars else ()
    return Section(name, title, (says,), charts, (Table(heads, rows, more=more),))


def _blocker(group: str, rows: Sequence[dict[str, Any]], source: Source) -> tuple[Words, ...]:
    freed, _ = known_sum(row["bytes_freed_if_waived"] for row in rows)
    commits = [row["last_commit_at"] for row in rows if row["last_commit_at"] is not None]
    last = max(commits, default=None)
    taken_at = source.analysis.taken_at
    silent = formats.duration(taken_at - last) if last else formats.UNKNOWN
    state = rows[0]["group_state"] or formats.UNKNOWN
    holding = sum((row["bytes_held_alone"] or 0) > 0 for row in rows)
    members = number(rows[0]["members"])
    return (Words(group), size(freed, HELD), number(holding), Words(state), members,
            moment(last), Words(silent))  # fmt: skip
