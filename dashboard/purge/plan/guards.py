"""Which guards stand on the partitions of a plan: live facts, judged by `dashboard.safety`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dashboard.domain.model import Guard, TopicPartition
from dashboard.purge.plan.facts import PartitionFacts, PlanFacts
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.safety.guard_texts import guard, untold
from dashboard.safety.unseen_readers import TopicReading, reading_of, suspicion
from dashboard.settings.settings import TopicDeclaration


@dataclass(frozen=True, slots=True)
class Finding:
    """A guard that applies, the group it speaks of where an override may name one, and which of
    the guard's facts it is, where it has several.
    """

    guard: Guard
    group_id: str | None = None
    fact: str | None = None


def findings(
    facts: PlanFacts,
    resolved: Mapping[TopicPartition, ResolvedTarget],
    *,
    waived: Collection[str],
    declarations: Mapping[str, TopicDeclaration],
    most_partitions: int,
    planned_partitions: int,
) -> dict[TopicPartition, list[Finding]]:
    """Every guard on each resolved partition for its target, in a fixed order.

    `declarations` maps a topic to its declaration; a plan of more than `most_partitions` is
    guarded as a whole. Asked when planning, and again of what is read before sending.
    """
    # Loads tables, which a purge's processes can do without until they plan or judge.
    from dashboard.purge.plan import standing

    keys = sorted(resolved)
    found = standing.judged(facts, resolved, waived, declarations)
    by_key: dict[TopicPartition, list[Finding]] = {key: [] for key in keys}
    for key, made, group_id, fact in found:
        by_key[key].append(Finding(made, group_id, fact))
    for key in keys:
        if _deletes(facts, key, resolved[key]):
            by_key[key] += _of_the_plan(facts, key.topic, most_partitions, planned_partitions)
            by_key[key] += _untold(facts.partitions[key])
    return by_key


def _untold(seen: PartitionFacts) -> list[Finding]:
    """What could not be read of the moment: it blocks as what it may hide does."""
    why = {"reassigning": seen.reassigning_untold, "leader-log-dir-move": seen.leader_move_untold}
    found = {name: said for name, said in why.items() if said is not None}
    return [Finding(untold(name, said), fact="untold") for name, said in found.items()]


def _deletes(facts: PlanFacts, key: TopicPartition, target: ResolvedTarget) -> bool:
    start = facts.partitions[key].log_start_offset
    return target.offset is not None and target.offset > (-1 if start is None else start)


def _of_the_plan(
    facts: PlanFacts, topic: str, most_partitions: int, planned_partitions: int
) -> list[Finding]:
    """What only a plan is asked."""
    over = folder = None
    if planned_partitions > most_partitions:
        over = Finding(guard("over-limit", partitions=planned_partitions, limit=most_partitions))
    if facts.unknown_to is not None:
        folder = Finding(guard("no-history", data=facts.unknown_to))
    elif facts.elsewhere is not None:
        folder = Finding(facts.elsewhere, fact="elsewhere")
    reading = reading_of(facts.readings, topic)
    return of_history(reading, folder, facts.unremembered.get(topic), over=over)


def of_history(
    reading: TopicReading,
    folder: Finding | None,
    unremembered: str | None,
    *,
    over: Finding | None = None,
) -> list[Finding]:
    """What one snapshot cannot tell of a topic, in the order of a plan's guards: days of metrics,
    whether the `folder` is the right one, since when no group that came and went is known. `over`:
    the plan's own size, where there is a plan.
    """
    unseen = suspicion(reading)
    found = (
        Finding(unseen, fact=None if reading.suspected else "untold") if unseen else None,
        over,
        folder,
        Finding(guard("stale-history", why=unremembered)) if unremembered is not None else None,
    )
    return [each for each in found if each is not None]
