"""The Overview's sentence: how much can be given back, to whom the rest belongs, what to waive;
when a disk is full, in words; and what to do next about a cluster's bytes, the surest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import records
from dashboard.core.words import LONGEST_DAYS, days_ahead, plural
from dashboard.settings.sections import Price, beside
from dashboard.store.finding_rows import Blocker, GrowthRow
from dashboard.views import formats
from dashboard.views.facts import (
    Guarded,
    by_guard,
    guarded_said,
    known_total,
    topics_where,
    total,
)
from dashboard.views.topic_rows import TopicRow

NEVER = "not filling up"
MAYBE = "may fill up"  # as likely it stands still: no day is told
# Guards of a partition without a target: nobody's offset tells one, or something else keeps it.
_UNCOMMITTED, _UNRESOLVED = "no-committed-offset", "target-unresolved"
Rates = dict[tuple[int | None, str | None], GrowthRow]


def of_disks(growth: pa.Table) -> Rates:
    """The rows of the findings table `growth` that are log dirs, not topics on them."""
    rows = records(growth.filter(growth["topic"].is_null()), GrowthRow)
    return {(row.broker_id, row.log_dir): row for row in rows}


def full_in(days: float | None) -> str:
    """`full in 9 h`; None: it does not grow."""
    return NEVER if days is None else f"full in {days_ahead(days)}"


def dated(row: GrowthRow) -> bool:
    """Whether a day is told: not where nine cases of ten hold one in which the disk never fills."""
    unsure = row.days_to_full_high is None and row.days_to_full_low is not None
    return row.days_to_full is not None and not unsure


def order(row: GrowthRow | None) -> tuple[int, float]:
    """Sorts by the day that is told; behind them those that may fill up, then all others alike."""
    if row is None or row.days_to_full is None:
        return 2, 0.0
    return (0, row.days_to_full) if dated(row) else (1, 0.0)


def likely(row: GrowthRow) -> str:
    """`full in 9 h`; that it may fill up where no day is told."""
    return MAYBE if row.days_to_full is not None and not dated(row) else full_in(row.days_to_full)


def between(low: float | None, high: float | None) -> str:
    """`7 d to 14 d`; without a latest day `not before 7 d`; empty where nothing is known."""
    if low is None:
        return ""
    if low > LONGEST_DAYS:
        return "not within a year"
    if high is None:
        return f"not before {days_ahead(low)}"
    first, last = days_ahead(low), days_ahead(high)
    return first if first == last else f"{first} to {last}"


def said(row: GrowthRow | None) -> str:
    """`full in 9 d (7 d to 14 d)`, or that it is not known."""
    if row is None or row.used_bytes_per_hour is None:
        return formats.UNKNOWN
    sure = between(row.days_to_full_low, row.days_to_full_high)
    return likely(row) + (f" ({sure})" if sure else "")


@dataclass(frozen=True, slots=True)
class Headline:
    """Bytes are summed over replicas, as far as they are known; None: nothing of them is.

    `safe_topics` have a partition without any guard; `unmeasured` are consumed partitions of
    unknown bytes, `records` those consumed at most. `safe_at_once_bytes` are whole segments of what
    is free: what a plan of `safe_topics` shows first. `guarded` is what guards hold, each of them.
    Without a target are `uncommitted_topics`, where no group's offset tells one, and
    `unresolved_topics`, where it could not be read or is not known yet.
    """

    consumed_bytes: int | None
    declared_bytes: int | None
    at_once_bytes: int | None
    safe_at_once_bytes: int | None
    records: int
    unmeasured: int
    safe_topics: tuple[str, ...]
    undeclared_topics: tuple[str, ...]
    uncommitted_topics: tuple[str, ...]
    unresolved_topics: tuple[str, ...]
    waive_group: str | None
    waive_bytes: int
    waive_least: str  # "at least " where they are those of a part of its partitions
    orphan_bytes: int | None
    guarded_bytes: int | None = 0
    guarded: Sequence[Guarded] = ()

    @property
    def nothing(self) -> bool:
        """Whether nothing can be given back: what could not be measured may be anything."""
        return self.consumed_bytes == 0 and not self.unmeasured

    @property
    def guards_said(self) -> str:
        """What guards hold, and which; empty where they hold nothing."""
        return guarded_said(self.guarded_bytes, self.guarded)

    def why_nothing(self, missing: Sequence[int]) -> str:
        """Why nothing can be given back: guards, topics without offsets, brokers that are away."""
        found = [f"{self.guards_said}."] if self.guarded else []
        if count := len(self.uncommitted_topics):
            have = "has" if count == 1 else "have"
            found.append(
                f"{plural(count, 'topic')} {have} no committed offset that tells: what could go "
                "is unknown there, never safe."
            )
        if count := len(self.unresolved_topics):
            wait, their = ("waits", "its") if count == 1 else ("wait", "their")
            found.append(
                f"{plural(count, 'topic')} {wait} for what could not be read or is not known yet: "
                f"{their} guard {_UNRESOLVED} names it."
            )
        if not self.guarded:
            found.append("Elsewhere nothing lies below the lowest committed offset.")
        if missing:
            who = ", ".join(map(str, missing))
            found.append(f"What broker {who} has is unknown: it did not answer.")
        return " ".join(found)


def headline(facts: pa.Table, blockers: pa.Table, disks: pa.Table) -> Headline:
    """The numbers from the committed target's facts and the findings `blockers` and `disks`."""
    consumed = topics_where(facts, "consumed")
    declared = facts.filter(facts["readers_declared"])
    group, freed, rows = next(iter(blockers_listed(blockers, 1)), (None, 0, []))
    known = set(pc.unique(declared["topic"]).to_pylist())
    uncommitted, unresolved = _without_target(facts)
    return Headline(
        consumed_bytes=known_total(facts, "bytes_likely", "consumed"),
        declared_bytes=known_total(facts, "bytes_likely", "free"),
        at_once_bytes=known_total(facts, "bytes_at_once", "consumed"),
        safe_at_once_bytes=known_total(facts, "bytes_at_once", "free"),
        records=total(facts, "records", "consumed"),
        unmeasured=facts.filter(facts["consumed"])["bytes_likely"].null_count,
        safe_topics=tuple(topics_where(facts, "free")),
        undeclared_topics=tuple(topic for topic in consumed if topic not in known),
        uncommitted_topics=uncommitted,
        unresolved_topics=unresolved,
        waive_group=group,
        waive_bytes=freed,
        waive_least=at_least(rows),
        orphan_bytes=_orphans(disks),
        guarded_bytes=known_total(facts, "bytes_likely", "guarded"),
        guarded=tuple(by_guard(facts)),
    )


def _without_target(facts: pa.Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Topics with a partition whose target no group's offset tells, and those of which something
    else keeps it: what could not be read, or is not as old yet as a replay window.
    """
    rows = facts.filter(pc.is_null(facts["target_offset"]))
    names = rows["guard_names"].combine_chunks()
    at, each = pc.list_parent_indices(names), pc.list_flatten(names)
    waits = np.zeros(rows.num_rows, dtype=bool)
    for guard, kind in ((_UNRESOLVED, True), (_UNCOMMITTED, False)):
        waits[at.filter(pc.equal(each, guard)).to_numpy(zero_copy_only=False)] = kind
    first, second = (
        tuple(sorted(pc.unique(rows["topic"].filter(pa.array(those))).to_pylist()))
        for those in (~waits, waits)
    )
    return first, second


def _orphans(disks: pa.Table) -> int | None:
    found = [known_total(disks, name) for name in ("stray_bytes", "orphan_bytes")]
    known = [size for size in found if size is not None]
    return sum(known) if known else None


def alive_said(found: Sequence[Blocker], now: datetime) -> str:
    """Whether somebody is there who reads on: members and last commit of a group, of which these
    are rows, at least one.
    """
    last = max((row.last_commit_at for row in found if row.last_commit_at), default=None)
    state, members = found[0].group_state, found[0].members
    if state == "Gone" or members == 0:
        who = "gone" if state == "Gone" else "no member"
        return f"{who}, silent for {formats.duration(now - last)}" if last else who
    who = "members unknown" if members is None else plural(members, "member")
    return f"{who}, last commit {formats.ago(last, now)}" if last else who


def at_least(found: Iterable[Blocker], what: str = "bytes_freed_if_waived") -> str:
    """What stands before these rows' bytes, summed, where those of some partitions are not in
    them; `what` names their column.
    """
    rows = list(found)
    known = any(getattr(row, what) is not None for row in rows)
    return "at least " if known and any(row.unmeasured for row in rows) else ""


def unknown_blockers(blockers: pa.Table) -> bool:
    """Whether groups stand there and not one of their bytes is known."""
    return known_total(blockers, "bytes_held_alone") is None


def blockers_by_group(
    blockers: pa.Table, limit: int, what: str = "bytes_freed_if_waived"
) -> list[tuple[str, int]]:
    """`(group, bytes)`, most first, then by name; `what` names the column of bytes."""
    if not blockers.num_rows:
        return []
    sums = blockers.group_by("group_id").aggregate([(what, "sum")])
    order = [(f"{what}_sum", "descending"), ("group_id", "ascending")]
    rows = sums.sort_by(order).slice(0, limit).to_pylist()
    return [(row["group_id"], int(row[f"{what}_sum"] or 0)) for row in rows]


def blockers_listed(
    blockers: pa.Table, limit: int, what: str = "bytes_freed_if_waived"
) -> list[tuple[str, int, list[Blocker]]]:
    """The same with each group's rows; of those groups alone that have any of these bytes."""
    return [
        (group, found, records(blockers.filter(pc.equal(blockers["group_id"], group)), Blocker))
        for group, found in blockers_by_group(blockers, limit, what)
        if found > 0
    ]


_MOST_NAMED = 6
Kind = Literal["purge", "group", "declare", "unread", "unresolved"]


@dataclass(frozen=True, slots=True)
class Step:
    """One sentence without its end; `names` are its topics, or its group."""

    kind: Kind
    said: str
    names: tuple[str, ...]


def next_steps(
    numbers: Headline, topics: Sequence[TopicRow], price: Price | None = None
) -> tuple[Step, ...]:
    """Empty where there is nothing to do. `price` tells what the bytes cost."""
    steps = []
    if safe := numbers.safe_topics:
        size = formats.size(numbers.declared_bytes) + beside(price, numbers.declared_bytes)
        steps.append(
            Step(
                "purge",
                f"Plan a purge of {plural(len(safe), 'topic')} whose readers are declared, {size}",
                safe,
            )
        )
    if numbers.waive_group and numbers.waive_bytes:
        steps.append(
            Step(
                "group",
                f"Ask whose group {numbers.waive_group} is, and whether it may be waived: that "
                f"would free {numbers.waive_least}{formats.size(numbers.waive_bytes)} at once"
                f"{beside(price, numbers.waive_bytes)}",
                (numbers.waive_group,),
            )
        )
    if (undeclared := numbers.undeclared_topics) and numbers.consumed_bytes is not None:
        more = numbers.consumed_bytes - (numbers.declared_bytes or 0)
        steps.append(
            Step(
                "declare",
                f"Declare the readers of {plural(len(undeclared), 'topic')}: {formats.size(more)}"
                f"{beside(price, more)} wait for it ({_named(undeclared)})",
                undeclared,
            )
        )
    if unread := _not_system(numbers.uncommitted_topics, topics):
        steps.append(
            Step(
                "unread",
                f"Find out who reads {plural(len(unread), 'topic')} without any committed group: "
                f"what may go there is unknown ({_named(unread)})",
                unread,
            )
        )
    if unresolved := _not_system(numbers.unresolved_topics, topics):
        steps.append(
            Step(
                "unresolved",
                f"See why no target is known on {plural(len(unresolved), 'topic')}: something "
                f"could not be read or is not known yet, and the guard {_UNRESOLVED} says what "
                f"({_named(unresolved)})",
                unresolved,
            )
        )
    return tuple(steps)


def _not_system(names: Sequence[str], topics: Sequence[TopicRow]) -> tuple[str, ...]:
    system = {row.topic for row in topics if "system-topic" in row.guards}
    return tuple(topic for topic in names if topic not in system)


def _named(topics: Sequence[str]) -> str:
    rest = len(topics) - _MOST_NAMED
    more = f" and {formats.number(rest)} more" if rest > 0 else ""
    return ", ".join(topics[:_MOST_NAMED]) + more
