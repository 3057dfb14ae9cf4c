"""Live facts as tables, judged by `dashboard.safety`: places of groups, targets, guards.

It loads pyarrow, a quarter of a second: who plans or judges imports it when it does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from dashboard.core.clock import microseconds
from dashboard.core.errors import PlanError
from dashboard.domain.model import Group, Guard, TopicPartition
from dashboard.domain.system_topics import is_system_topic
from dashboard.purge.plan.claims import GroupClaim
from dashboard.purge.plan.facts import PlanFacts
from dashboard.purge.plan.resolve import ResolvedTarget, Window
from dashboard.purge.plan.tiers import is_remote
from dashboard.safety import guards, targets
from dashboard.safety.committed_offsets import COMMITS
from dashboard.safety.readers import GROUPS, readers
from dashboard.safety.standing import Standing, standing
from dashboard.settings.settings import TopicDeclaration, of_topic

_MOST_GUARDS = 5_000_000


def stand(
    facts: PlanFacts,
    keys: list[TopicPartition],
    names: list[str],
    waived: Collection[str] = (),
) -> Standing:
    """Where every group stands on the partitions `keys`; `names` are all topics of the facts."""
    number = {name: at for at, name in enumerate(names)}
    ids = {key.topic: seen.topic_id for key, seen in facts.partitions.items()}
    topics = pa.table(
        [
            pa.array(range(len(names)), pa.int32()),
            pa.array(names, pa.string()),
            pa.array([ids[name] for name in names], pa.string()),
            pa.array([name in facts.new_topics for name in names], pa.bool_()),
        ],
        names=["topic_no", "topic", "topic_id", "is_new"],
    )
    partitions = pa.table(
        [
            pa.array([number[key.topic] for key in keys], pa.int32()),
            pa.array([key.partition for key in keys], pa.int32()),
            pa.array([facts.partitions[key].high_watermark for key in keys], pa.int64()),
        ],
        names=["topic_no", "partition", "high_watermark"],
    )
    commits = _commits(facts, number)
    who = readers(
        _groups(facts.groups.values()), _offsets(facts, number), topics, waived,
        streams=facts.streams, commits=commits, met=facts.met,
        unread=facts.unread_groups, unplaced=facts.unplaced, missed=facts.missed,
        deleted=facts.deleted, by_name=facts.by_name,
    )  # fmt: skip
    return standing(partitions, commits, topics, who, waived)


def lowest(
    facts: PlanFacts,
    keys: list[TopicPartition],
    chosen: Collection[str],
    waived: Collection[str],
) -> dict[TopicPartition, int | None]:
    """Per partition the lowest offset of the groups that count, where one tells how far it read.

    `chosen` empty: all groups but the waived ones.
    """
    names = sorted({key.topic for key in facts.partitions})
    if chosen:
        of_each = stand(facts, keys, names, waived).positions.to_pylist()
        counted = [
            [g["committed_offset"] for g in groups if g["group_id"] in chosen] for groups in of_each
        ]
        return {k: min(found, default=None) for k, found in zip(keys, counted, strict=True)}
    every = stand(facts, keys, names)
    rest = stand(facts, keys, names, waived) if waived else every
    ends = pa.array([facts.partitions[key].high_watermark for key in keys], pa.int64())
    found = targets.without_waived(rest.first_offset, every.first_offset, ends)
    return dict(zip(keys, found.to_pylist(), strict=True))


def capped(
    facts: PlanFacts,
    wanted: Mapping[TopicPartition, int | None],
    windows: Mapping[TopicPartition, Window],
    *,
    is_committed: bool,
) -> dict[TopicPartition, tuple[int | None, str | None, str | None]]:
    """Per partition the offset as far as its bounds allow, what lowered it, why it is unknown."""
    keys = sorted(wanted)
    offsets = pa.array([wanted[key] for key in keys], pa.int64())
    rule = targets.committed if is_committed else targets.capped
    found = rule(offsets, _bounds(facts, keys, windows))
    columns = (found.offset, found.capped_by, found.problem)
    rows = zip(*(values.to_pylist() for values in columns), strict=True)
    return dict(zip(keys, rows, strict=True))


def judged(
    facts: PlanFacts,
    resolved: Mapping[TopicPartition, ResolvedTarget],
    waived: Collection[str],
    declarations: Mapping[str, TopicDeclaration],
) -> list[tuple[TopicPartition, Guard, str | None, str | None]]:
    """Every guard that `safety.guards` finds, by partition, its group and which fact it is.

    Raises PlanError TOO_MANY_GUARDS: each is a text of its own, and Arrow holds 2 GiB of them.
    """
    keys = sorted(resolved)
    names = sorted({key.topic for key in facts.partitions})
    rows = _rows(facts, keys, names, resolved, declarations)
    errors = [(at, facts.offset_errors[k]) for at, k in enumerate(keys) if k in facts.offset_errors]
    try:
        where = stand(facts, keys, names, waived)
        if where.unplaced.num_rows > _MOST_GUARDS:
            raise _too_many(
                f"groups whose place is not known would guard {len(keys)} partitions "
                f"{where.unplaced.num_rows} times"
            )
        found = guards.findings(rows, where, facts.incomplete, _errors(errors))
    except (pa.ArrowCapacityError, pa.ArrowInvalid) as error:  # of groups that are behind, say
        if "overflow" not in str(error) and not isinstance(error, pa.ArrowCapacityError):
            raise
        raise _too_many(f"all guards of {len(keys)} partitions are too long a text") from error
    return [
        (keys[row["row"]], Guard(row["name"], row["reason"], row["lift"]), row["group_id"],
         row["fact"])
        for row in found.to_pylist()
    ]  # fmt: skip


def _too_many(what: str) -> PlanError:
    return PlanError(
        f"{what}: more than a plan can tell",
        "Plan fewer topics at once. Topics that are new to all groups are new no longer once "
        "snapshots of some minutes are kept.",
        code="TOO_MANY_GUARDS",
    )


def places(
    facts: PlanFacts, keys: list[TopicPartition]
) -> dict[TopicPartition, dict[str, int | None]]:
    """Each group's offset where it tells how far the group has read; None: it has one that does
    not, or reads the partition without. No group is waived here.
    """
    names = sorted({key.topic for key in facts.partitions})
    found = stand(facts, keys, names)
    of: dict[TopicPartition, dict[str, int | None]] = {}
    for key, groups in zip(keys, found.positions.to_pylist(), strict=True):
        of[key] = {g["group_id"]: g["committed_offset"] for g in groups}
    for row in (*found.unplaced.to_pylist(), *found.unread_share.to_pylist()):
        of[keys[row["row"]]][row["group_id"]] = None
    return of


def _bounds(
    facts: PlanFacts, keys: list[TopicPartition], windows: Mapping[TopicPartition, Window]
) -> targets.Bounds:
    seen = [facts.partitions[key] for key in keys]
    found = [windows.get(key) for key in keys]
    return targets.Bounds(
        pa.array([p.log_start_offset for p in seen], pa.int64()),
        pa.array([p.last_stable_offset for p in seen], pa.int64()),
        pa.array([p.high_watermark for p in seen], pa.int64()),
        pa.array([w.offset if w else None for w in found], pa.int64()),
        pa.array([w is not None for w in found], pa.bool_()),
        pa.array([w.problem if w else None for w in found], pa.string()),
    )


def _rows(
    facts: PlanFacts,
    keys: list[TopicPartition],
    names: list[str],
    resolved: Mapping[TopicPartition, ResolvedTarget],
    declarations: Mapping[str, TopicDeclaration],
) -> pa.Table:
    """The rows that `safety.guards.findings` judges."""
    seen = [facts.partitions[key] for key in keys]
    configs = [facts.configs.get(key.topic, {}) for key in keys]
    internal = {k.topic for k, p in facts.partitions.items() if p.is_internal}
    system = {name: name in internal or is_system_topic(name) for name in names}
    declared = [
        None if (said := declarations.get(key.topic)) is None else of_topic(said, p.topic_id)
        for key, p in zip(keys, seen, strict=True)
    ]
    targets = [resolved[key] for key in keys]
    moving = [p.reassigning or (None, None) for p in seen]
    text, whole, flag, ids = pa.string(), pa.int64(), pa.bool_(), pa.list_(pa.int32())
    columns: dict[str, tuple[list[object], pa.DataType]] = {
        "topic": ([key.topic for key in keys], text),
        "topic_id": ([p.topic_id for p in seen], text),
        "is_system": ([system[key.topic] for key in keys], flag),
        "cleanup_policy": ([c.get("cleanup.policy") for c in configs], text),
        "readers_declared": ([d is not None and d.readers == "groups" for d in declared], flag),
        "restore_declared": ([d is not None and d.state_restore == "none" for d in declared], flag),
        "remote_storage": ([is_remote(c) for c in configs], flag),
        "unclean_election": (
            [c.get("unclean.leader.election.enable") == "true" for c in configs], flag,
        ),
        "leader_id": ([p.leader_id for p in seen], whole),
        "log_start_offset": ([p.log_start_offset for p in seen], whole),
        "last_stable_offset": ([p.last_stable_offset for p in seen], whole),
        "high_watermark": ([p.high_watermark for p in seen], whole),
        "behind_brokers": ([sorted(set(p.replicas) - set(p.isr)) for p in seen], ids),
        "adding": ([m[0] for m in moving], ids),
        "removing": ([m[1] for m in moving], ids),
        "leader_moves_to": ([p.leader_moves_to for p in seen], text),
        "target_offset": ([t.offset for t in targets], whole),
        "target_problem": ([t.problem for t in targets], text),
    }  # fmt: skip
    return pa.table({name: pa.array(values, kind) for name, (values, kind) in columns.items()})


def _errors(errors: list[tuple[int, str]]) -> pa.Table:
    return pa.table(
        {
            "row": pa.array([at for at, _ in errors], pa.int64()),
            "why": pa.array([why for _, why in errors], pa.string()),
        }
    )


def _groups(groups: Collection[Group]) -> pa.Table:
    found = {
        name: pa.array([getattr(g, name) for g in groups], GROUPS.field(name).type)
        for name in GROUPS.names
        if name != "assigned"
    }
    assigned = [
        [{"topic": tp.topic, "partition": tp.partition} for tp in g.assigned] for g in groups
    ]
    found["assigned"] = pa.array(assigned, GROUPS.field("assigned").type)
    return pa.table(found).select(GROUPS.names)


def _offsets(facts: PlanFacts, number: Mapping[str, int]) -> pa.Table:
    rows = [
        (number.get(topic), group_id)
        for group_id, topics in facts.offset_topics.items()
        for topic in topics
    ]
    return pa.table(
        [pa.array([at for at, _ in rows], pa.int32()), pa.array([g for _, g in rows], pa.string())],
        names=["topic_no", "group_id"],
    )


def _commits(facts: PlanFacts, number: Mapping[str, int]) -> pa.Table:
    # Offsets of an earlier topic of the name were made None when the claims were put together.
    rows = [(key, claim) for key, claims in facts.claims.items() for claim in claims]
    ids = {key.topic: seen.topic_id for key, seen in facts.partitions.items()}
    found = {
        "topic_no": [number.get(key.topic) for key, _ in rows],
        "partition": [key.partition for key, _ in rows],
        "group_id": [claim.group_id for _, claim in rows],
        "topic_id": [ids.get(key.topic) for key, _ in rows],
        "committed_offset": [claim.committed_offset for _, claim in rows],
        "remembered": [claim.remembered for _, claim in rows],
        "leader_epoch": [claim.leader_epoch for _, claim in rows],
        "epoch_end": [_epoch_end(facts, key, claim) for key, claim in rows],
        "seen_at": [_seen_at(facts, key, claim) for key, claim in rows],
    }
    arrays = [pa.array(found[f.name], f.type) for f in COMMITS]
    return pa.table(arrays, schema=COMMITS)


def _seen_at(facts: PlanFacts, key: TopicPartition, claim: GroupClaim) -> int | None:
    at = facts.seen.get((key, claim.group_id)) if claim.remembered else None
    return None if at is None else microseconds(at)


def _epoch_end(facts: PlanFacts, key: TopicPartition, claim: GroupClaim) -> int | None:
    seen = facts.partitions.get(key)
    if seen is None or claim.leader_epoch is None:
        return None
    return seen.epoch_ends.get(claim.leader_epoch)
