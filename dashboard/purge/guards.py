"""Which guards stand on the partitions of a plan: live facts, judged by `dashboard.safety`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from dashboard.guard_texts import guard
from dashboard.model import Guard, TopicPartition
from dashboard.purge.facts import PlanFacts
from dashboard.purge.resolve import ResolvedTarget
from dashboard.purge.standing import stand
from dashboard.purge.unseen_readers import reading_of
from dashboard.safety import guards
from dashboard.settings import TopicDeclaration
from dashboard.sizes import binary
from dashboard.system_topics import is_system_topic


@dataclass(frozen=True, slots=True)
class Finding:
    """A guard that applies, and the group it speaks of where an override may name one."""

    guard: Guard
    group_id: str | None = None


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
    keys = sorted(resolved)
    names = sorted({key.topic for key in facts.partitions})
    rows = _rows(facts, keys, names, resolved, declarations)
    where = stand(facts, keys, names, waived)
    errors = [(at, facts.offset_errors[k]) for at, k in enumerate(keys) if k in facts.offset_errors]
    found = guards.findings(rows, where, facts.incomplete, _errors(errors))
    by_key: dict[TopicPartition, list[Finding]] = {key: [] for key in keys}
    for row in found.to_pylist():
        made = Guard(row["name"], row["reason"], row["lift"])
        by_key[keys[row["row"]]].append(Finding(made, row["group_id"]))
    for key in keys:
        if _deletes(facts, key, resolved[key]):
            by_key[key] += _of_the_plan(facts, key.topic, most_partitions, planned_partitions)
    return by_key


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
    declared = [declarations.get(key.topic) for key in keys]
    targets = [resolved[key] for key in keys]
    moving = [p.reassigning or (None, None) for p in seen]
    text, whole, flag, ids = pa.string(), pa.int64(), pa.bool_(), pa.list_(pa.int32())
    columns: dict[str, tuple[list[object], pa.DataType]] = {
        "topic": ([key.topic for key in keys], text),
        "is_system": ([system[key.topic] for key in keys], flag),
        "cleanup_policy": ([c.get("cleanup.policy") for c in configs], text),
        "readers_declared": ([d is not None and d.readers == "groups" for d in declared], flag),
        "restore_declared": ([d is not None and d.state_restore == "none" for d in declared], flag),
        "remote_storage": ([c.get("remote.storage.enable") == "true" for c in configs], flag),
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


def _deletes(facts: PlanFacts, key: TopicPartition, target: ResolvedTarget) -> bool:
    start = facts.partitions[key].log_start_offset
    return target.offset is not None and target.offset > (-1 if start is None else start)


def _of_the_plan(
    facts: PlanFacts, topic: str, most_partitions: int, planned_partitions: int
) -> list[Finding]:
    """What only a plan is asked: days of metrics, and its own size."""
    made = []
    reading = reading_of(facts.readings, topic)
    if reading.suspected:
        bytes_out = binary(reading.an_hour(reading.bytes_out) or 0)
        explained = binary(reading.an_hour(reading.explained_bytes) or 0)
        made.append(
            guard("unseen-reader-suspected", topic=topic, bytes_out=bytes_out, explained=explained)
        )
    if planned_partitions > most_partitions:
        made.append(guard("over-limit", partitions=planned_partitions, limit=most_partitions))
    return [Finding(g) for g in made]
