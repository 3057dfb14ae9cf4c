"""Which guards stand on a partition: pure judgement of facts, waivers and declarations.

Two questions: may records be lost that somebody still wants (asked when planning and again
before sending), and is the moment bad (asked when planning). Texts are in `guard_texts`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from dashboard.guard_texts import guard, is_system_topic, share_why
from dashboard.model import Guard, TopicPartition
from dashboard.purge.facts import GroupClaim, PartitionFacts, PlanFacts
from dashboard.purge.readers import Readers, readers
from dashboard.purge.resolve import ResolvedTarget
from dashboard.purge.unseen_readers import reading_of
from dashboard.settings import TopicDeclaration
from dashboard.sizes import binary


@dataclass(frozen=True, slots=True)
class Finding:
    """A guard that applies, and the group it speaks of where an override may name one."""

    guard: Guard
    group_id: str | None = None


@dataclass(frozen=True, slots=True)
class Judge:
    """Facts prepared once, so that 100,000 partitions are judged in seconds."""

    facts: PlanFacts
    waived: Collection[str]
    declarations: Mapping[str, TopicDeclaration]
    most_partitions: int
    planned_partitions: int
    readers: Readers

    def findings(self, key: TopicPartition, target: ResolvedTarget) -> list[Finding]:
        """Every guard on one partition for its target, in a fixed order."""
        seen = self.facts.partitions[key]
        return [*self.data_findings(seen, target), *self._moment_findings(seen, target)]

    def data_findings(self, seen: PartitionFacts, target: ResolvedTarget) -> list[Finding]:
        """The guards that keep records from being lost; asked again before sending."""
        found = list(self._topic_findings(seen))
        if target.offset is None:
            found.append(_without_target(target))
            return found
        if seen.log_start_offset is not None and target.offset <= seen.log_start_offset:
            return found  # nothing is left to delete, so nobody loses anything
        stable = seen.last_stable_offset
        if stable is None or target.offset > stable:
            found.append(
                Finding(
                    guard(
                        "beyond-last-stable-offset",
                        target_offset=target.offset,
                        last_stable_offset="unknown" if stable is None else stable,
                    )
                )
            )
        found.extend(self._reader_findings(seen, target.offset))
        return found

    def _topic_findings(self, seen: PartitionFacts) -> Iterator[Finding]:
        why = [*self.facts.incomplete]
        if seen.key in self.facts.offset_errors:
            why.append(self.facts.offset_errors[seen.key])
        if why:
            yield Finding(guard("groups-incomplete", why="; ".join(why)))
        if seen.is_internal or is_system_topic(seen.topic):
            yield Finding(guard("system-topic", topic=seen.topic))
        policy = self.facts.configs.get(seen.topic, {}).get("cleanup.policy")
        if policy is not None and "delete" not in policy:
            yield Finding(guard("not-deletable", topic=seen.topic, policy=policy))

    def _reader_findings(self, seen: PartitionFacts, target_offset: int) -> Iterator[Finding]:
        claims = {
            c.group_id: c
            for c in self.facts.claims.get(seen.key, ())
            if c.group_id not in self.waived
        }
        for group_id, claim in claims.items():
            committed = claim.committed_offset
            if committed is not None and committed < target_offset:
                yield Finding(_unread(seen, group_id, committed, target_offset), group_id)
        groups = self.readers.of_topic.get(seen.topic, ())
        if not groups:
            yield Finding(guard("no-committed-offset", who="No group"))
        for group_id in groups:
            if group_id not in self.readers.share:
                yield from self._unplaced(seen.key, group_id, claims.get(group_id))
        misplaced = self.readers.misplaced.get(seen.topic, ())
        for group_id in misplaced:
            yield _without_commit(group_id, "whose last known offset is not of this log")
        for group_id in self.readers.anywhere:
            if group_id not in groups and group_id not in misplaced:
                yield _without_commit(group_id, "whose members may read any topic")
        yield from self._share_findings(seen, claims)

    def _unplaced(
        self, key: TopicPartition, group_id: str, claim: GroupClaim | None
    ) -> Iterator[Finding]:
        """A group of the topic that has no offset on this partition, or has it no longer."""
        known = claim if _is_known(claim) else None
        if known is not None and not self.readers.starts_over(known, key.topic):
            return
        group = self.facts.groups.get(group_id)
        if group is not None and key in group.assigned:
            yield Finding(guard("members-without-commits", group_id=group_id), group_id)
        elif known is not None:
            yield _without_commit(group_id, "whose last known offset is gone")
        else:
            yield _without_commit(group_id)

    def _share_findings(
        self, seen: PartitionFacts, claims: Mapping[str, GroupClaim]
    ) -> Iterator[Finding]:
        for group_id, reach in self.readers.share.items():
            known = bool(reach.topics) and not reach.error
            if known and (seen.topic not in reach.topics or _is_known(claims.get(group_id))):
                continue
            why = share_why(reads_topic=known, error=reach.error)
            yield Finding(guard("share-group", group_id=group_id, why=why), group_id)

    def _moment_findings(self, seen: PartitionFacts, target: ResolvedTarget) -> Iterator[Finding]:
        if target.offset is None or target.offset <= (seen.log_start_offset or 0):
            return
        topic, configs = seen.topic, self.facts.configs.get(seen.topic, {})
        declared = self.declarations.get(topic)
        if declared is None or declared.readers != "groups":
            yield Finding(guard("readers-undeclared", topic=topic))
        yield from self._unseen_readers(topic)
        why = changelog_reason(topic, configs.get("cleanup.policy"))
        if why:
            yield Finding(guard("changelog-source", topic=topic, why=why))
        if configs.get("remote.storage.enable") == "true":
            yield Finding(guard("remote-storage", topic=topic))
        behind = sorted(set(seen.replicas) - set(seen.isr))
        if behind:
            brokers = " and ".join(f"broker {b}" for b in behind)
            yield Finding(guard("under-replicated", brokers=brokers))
        if seen.reassigning is not None:
            adding, removing = (list(ids) for ids in seen.reassigning)
            yield Finding(guard("reassigning", adding=adding, removing=removing))
        if seen.leader_moves_to is not None:
            yield Finding(
                guard("leader-log-dir-move", broker_id=seen.leader_id, log_dir=seen.leader_moves_to)
            )
        if configs.get("unclean.leader.election.enable") == "true":
            yield Finding(guard("unclean-election-enabled", topic=topic))
        if self.planned_partitions > self.most_partitions:
            yield Finding(
                guard("over-limit", partitions=self.planned_partitions, limit=self.most_partitions)
            )

    def _unseen_readers(self, topic: str) -> Iterator[Finding]:
        found = reading_of(self.facts.readings, topic)
        if found.suspected:
            bytes_out = binary(found.an_hour(found.bytes_out) or 0)
            explained = binary(found.an_hour(found.explained_bytes) or 0)
            yield Finding(
                guard(
                    "unseen-reader-suspected",
                    topic=topic,
                    bytes_out=bytes_out,
                    explained=explained,
                )
            )


def judge(
    facts: PlanFacts,
    *,
    waived: Collection[str],
    declarations: Mapping[str, TopicDeclaration],
    most_partitions: int,
    planned_partitions: int,
) -> Judge:
    """A judge over `facts`; `declarations` maps a topic to its declaration."""
    return Judge(
        facts,
        waived,
        declarations,
        most_partitions,
        planned_partitions,
        readers(facts, waived),
    )


@lru_cache(maxsize=4096)
def changelog_reason(topic: str, cleanup_policy: str | None) -> str | None:
    """Why a Kafka Streams application may restore a state store from this topic, or None.

    With `reuse.ktable.source.topics` a table's source topic is its own changelog; such topics
    are compacted. Repartition topics are never restored from.
    """
    if topic.endswith("-changelog"):
        return "its name ends with -changelog"
    if cleanup_policy and "compact" in cleanup_policy and "delete" in cleanup_policy:
        return "it is compacted, as the source of a table is"
    return None


def _without_target(target: ResolvedTarget) -> Finding:
    if target.problem:
        return Finding(guard("target-unresolved", why=target.problem))
    return Finding(guard("no-committed-offset", who="No group"))


def _without_commit(group_id: str, known: str = "") -> Finding:
    who = f"Group {group_id}, {known}," if known else f"Group {group_id}"
    return Finding(guard("no-committed-offset", who=who), group_id)


def _is_known(claim: GroupClaim | None) -> bool:
    return claim is not None and claim.committed_offset is not None


def _unread(seen: PartitionFacts, group_id: str, committed: int, target_offset: int) -> Guard:
    start = max(committed, seen.log_start_offset or 0)
    return guard(
        "unread-by-group",
        group_id=group_id,
        committed_offset=committed,
        target_offset=target_offset,
        records=target_offset - start,
    )
