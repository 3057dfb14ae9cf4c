"""Which groups may read a topic, as far as anything shows: what guards of readers ask. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dashboard.purge.facts import GroupClaim, PlanFacts


@dataclass(frozen=True, slots=True)
class ShareReach:
    """The topics that a share group reads; unknown where there is none, or with an `error`."""

    topics: frozenset[str]
    error: str | None


@dataclass(frozen=True, slots=True)
class Readers:
    """Groups by how they are known to read a topic, waived ones left out, sorted.

    `of_topic`: an offset on any partition of it, or a member for it. `misplaced`: none
    of these, but a remembered offset of an earlier topic of that name, or past the end of this
    one. `anywhere`: nobody can tell what they read, and no offset on any topic. `members`:
    topics that a group's members read or ask for, None where these are not known.
    `share`: every share group.
    """

    of_topic: Mapping[str, tuple[str, ...]]
    misplaced: Mapping[str, tuple[str, ...]]
    anywhere: tuple[str, ...]
    members: Mapping[str, frozenset[str] | None]
    share: Mapping[str, ShareReach]

    def starts_over(self, claim: GroupClaim, topic: str) -> bool:
        """Whether members may read `topic` from where no offset shows: the claim's is gone.

        While a group rebalances it has members without partitions. A group without members
        counts at what is remembered.
        """
        if not claim.remembered or claim.group_id not in self.members:
            return False
        topics = self.members[claim.group_id]
        return topics is None or topic in topics


def readers(facts: PlanFacts, waived: Collection[str]) -> Readers:
    """Who reads what, prepared once for all partitions."""
    here: dict[str, set[str]] = {}
    misplaced: dict[str, set[str]] = {}
    for key, claims in facts.claims.items():
        for claim in claims:
            known = claim.committed_offset is not None or not claim.remembered
            (here if known else misplaced).setdefault(key.topic, set()).add(claim.group_id)
    for group in facts.groups.values():
        for topic in group.topics:
            here.setdefault(topic, set()).add(group.group_id)
    return Readers(
        {topic: tuple(sorted(ids - set(waived))) for topic, ids in here.items()},
        {
            topic: tuple(sorted(ids - here.get(topic, set()) - set(waived)))
            for topic, ids in misplaced.items()
        },
        tuple(sorted(facts.without_offsets - set(waived))),
        {g.group_id: g.topics or None for g in facts.groups.values() if g.members != 0},
        _share(facts, waived),
    )


def _share(facts: PlanFacts, waived: Collection[str]) -> dict[str, ShareReach]:
    """Where each share group may want records: where it has a start offset, or a member reads.

    Those without members keep their start offsets.
    """
    return {
        group_id: ShareReach(
            facts.share_topics.get(group_id, frozenset()) | group.topics,
            group.error,
        )
        for group_id, group in facts.groups.items()
        if group.type == "share" and group_id not in waived
    }
