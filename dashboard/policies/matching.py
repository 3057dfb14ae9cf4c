"""Which of a cluster's topics a policy is for, and whose commits decide about each."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dashboard.settings.policies.policy import PRESET_LIFTS, REPARTITION, REPARTITION_SUFFIX, Policy


def owner_of(policy: Policy, topic: str, group_ids: Collection[str]) -> str | None:
    """The known group whose commits alone count for `topic`; None where there is none.

    None too where all groups count. With the preset it is the Streams application that the name
    tells: `<application.id>-<name>-repartition` (Kafka's `InternalTopologyBuilder`), where the
    application id is the group id. Both parts may hold dashes, so the longest known group wins:
    should that be wrong, it has no commits there and guards refuse.
    """
    if policy.committed_by != "owner":
        return None
    if policy.preset != REPARTITION:
        return policy.owner if policy.owner in group_ids else None
    return _application(topic, group_ids)


def _application(topic: str, group_ids: Collection[str]) -> str | None:
    prefix = topic.removesuffix(REPARTITION_SUFFIX)
    while prefix := prefix.rpartition("-")[0]:
        if prefix in group_ids:
            return prefix
    return None


def lifted(
    policy: Policy, topic: str, owner: str | None, streams: Collection[str]
) -> dict[str, str]:
    """The policy's overrides that count for this topic: what the preset lifts by itself, only
    where its owner, or where all groups count the application that its name tells, is or was known
    as a Kafka Streams application: any group may be called as a topic begins.
    """
    known = (owner or _application(topic, streams)) in streams
    return {
        name: why
        for name, why in policy.overrides.items()
        if known or policy.preset != REPARTITION or PRESET_LIFTS.get(name) != why
    }


def applications(
    policy: Policy, topics: Iterable[str], group_ids: Collection[str]
) -> dict[str | None, tuple[str, ...]]:
    """The policy's topics by the group whose commits count, both sorted; None comes last.

    Where all groups count, all topics stand under None. Where the owner's alone count
    (`policy.committed_by == "owner"`), those under None have no known owner: nothing says what
    was read there, so they are not to be purged.
    """
    known = frozenset(group_ids)
    found: dict[str | None, list[str]] = {}
    for topic in sorted(topics):
        if policy.matches(topic):
            found.setdefault(owner_of(policy, topic, known), []).append(topic)
    owners = sorted(found, key=lambda owner: (owner is None, owner or ""))
    return {owner: tuple(found[owner]) for owner in owners}
