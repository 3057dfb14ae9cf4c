"""Which guards stand on the partitions of a plan: live facts, judged by `dashboard.safety`; and
what an operator lifts of them by name and reason: waived groups and overridden guards.

Group and reason travel apart from the page or the command line to the plan: Kafka takes any text
for a group's id, so no character can part the two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from dashboard.core.canonical import LATER, Moment, Text
from dashboard.core.errors import UsageError
from dashboard.domain.model import Guard, TopicPartition
from dashboard.purge.plan.facts import PartitionFacts, PlanFacts
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.safety.guard_texts import NEVER_LIFTABLE, guard, names, untold
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
    of_topics = {
        topic: _of_the_plan(facts, topic, most_partitions, planned_partitions)
        for topic in {key.topic for key in keys}
    }
    for key in keys:
        if _deletes(facts, key, resolved[key]):
            by_key[key] += of_topics[key.topic]
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
    if facts.elsewhere is not None:
        folder = Finding(facts.elsewhere, fact="elsewhere")
    elif facts.unknown_to is not None:
        folder = Finding(guard("no-history", data=facts.unknown_to))
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


@dataclass(frozen=True, slots=True)
class Waiver:
    """A group whose offsets no longer count, because `by` said why at `at`.

    `move`: once the records below a target are gone, its offset there follows to the target.
    `alive`: it had members when the plan was made, or nobody could tell; the plan says so. `gone`:
    no coordinator listed it then, and one that is listed before a request is refused (`revived`).
    `since`: where none did, by whomever it was waived, it is as it was when a snapshot of that
    moment was the newest (`clocks.newest_seen`); one that a later one met counts as ever.
    """

    group_id: Text
    reason: Text
    by: str
    at: Moment
    move: bool = field(default=False, metadata=LATER)
    alive: bool = field(default=False, metadata=LATER)
    gone: bool = field(default=False, metadata=LATER)
    since: Moment | None = field(default=None, metadata=LATER)


@dataclass(frozen=True, slots=True)
class Override:
    """A guard lifted with a reason; `group_id` None lifts the guard that speaks of no group.

    In a request None means every group; in a plan each group that was lifted is named.
    """

    name: Text
    group_id: Text | None
    reason: Text
    by: str
    at: Moment


@dataclass(frozen=True, slots=True)
class Lifted:
    """A guard that an override lifted on one partition, the group and the fact it spoke of.

    A group may have no offset for many reasons: who accepts one has not accepted the next.
    """

    name: Text
    group_id: Text | None
    fact: Text | None = field(default=None, metadata=LATER)


def lift(
    findings: Iterable[Finding], overrides: Iterable[Override], *, has_target: bool
) -> tuple[tuple[Guard, ...], list[tuple[Override, Lifted]]]:
    """The guards that still block, and each override with what it lifted, naming the group.

    Without a target offset nothing can be lifted: there is nothing to send. An override that
    names no group lifts its guard of every group.
    """
    blocking: list[Guard] = []
    lifted: list[tuple[Override, Lifted]] = []
    for finding in findings:
        found = _matching(finding, overrides) if has_target else None
        if found is None:
            blocking.append(finding.guard)
        else:
            same = found.group_id == finding.group_id
            named = found if same else replace(found, group_id=finding.group_id)
            lifted.append((named, _as_lifted(finding)))
    return tuple(blocking), lifted


def still_blocking(
    findings: Iterable[Finding], overrides: Iterable[Override], lifted: Collection[Lifted]
) -> list[Finding]:
    """What blocks before sending: all that these overrides of a plan did not lift as `lifted`."""
    named = {(o.name, o.group_id) for o in overrides}
    return [
        found
        for found in findings
        if found.guard.name in NEVER_LIFTABLE
        or _as_lifted(found) not in lifted
        or (found.guard.name, found.group_id) not in named
    ]


def _as_lifted(finding: Finding) -> Lifted:
    return Lifted(finding.guard.name, finding.group_id, finding.fact)


def _matching(finding: Finding, overrides: Iterable[Override]) -> Override | None:
    if finding.guard.name in NEVER_LIFTABLE:
        return None
    return next(
        (
            o
            for o in overrides
            if o.name == finding.guard.name and o.group_id in (None, finding.group_id)
        ),
        None,
    )


@dataclass(frozen=True, slots=True)
class Waive:
    """A group to waive, and why. Raises UsageError WAIVER_INVALID when one of them is blank.

    `gone`: only while no coordinator lists it, and no snapshot met it after the one that was seen
    at `since` (`clocks.newest_seen`); `by` says so, where it is not who asks for the plan.
    """

    group_id: str
    reason: str
    gone: bool = False
    by: str | None = None
    since: datetime | None = None

    def __post_init__(self) -> None:
        if not self.group_id or not self.reason.strip():
            raise UsageError(
                f"'{self.group_id}={self.reason}' is no waiver: expected GROUP=REASON",
                'Write --waive "GROUP=why its offsets no longer count".',
                code="WAIVER_INVALID",
            )

    def waiver(
        self, by: str, at: datetime, *, move: bool = False, since: datetime | None = None
    ) -> Waiver:
        """The waiver as a plan keeps it: who asked, when, and `since` when the group was gone."""
        return Waiver(
            self.group_id, self.reason.strip(), self.by or by, at, move,
            gone=self.gone, since=self.since or since,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lift:
    """A guard to lift, and why; `group_id` None lifts it whichever group it speaks of.

    Raises UsageError OVERRIDE_INVALID when there is no such guard or no reason.
    """

    name: str
    reason: str
    group_id: str | None = None

    def __post_init__(self) -> None:
        if self.name not in names() or self.group_id == "" or not self.reason.strip():
            raise UsageError(
                f"'{self.name}={self.reason}' overrides no guard with a reason",
                f'Write --override "NAME=why" with one of: {", ".join(names())}.',
                code="OVERRIDE_INVALID",
            )

    @classmethod
    def named(cls, named: str, reason: str) -> Lift:
        """Of NAME or NAME:GROUP. Raises UsageError OVERRIDE_INVALID, also of an empty group:
        whoever names none there does not mean all.
        """
        name, colon, group_id = named.partition(":")
        return cls(name, reason, group_id if colon else None)

    def override(self, by: str, at: datetime, liftable: Collection[str]) -> Override:
        """The override as a plan keeps it. Raises UsageError NOT_LIFTABLE."""
        if self.name in NEVER_LIFTABLE or self.name not in liftable:
            raise UsageError(
                f"guard {self.name} cannot be lifted",
                f"These may be: {', '.join(liftable)}; the settings' liftable_guards decide.",
                code="NOT_LIFTABLE",
            )
        return Override(self.name, self.group_id, self.reason.strip(), by, at)
