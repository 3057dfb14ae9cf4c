"""What a topic's name says it is for: dead letters, retries, Kafka Streams, a tool, or nothing."""

from __future__ import annotations

import re

from dashboard.domain.system_topics import tool_of

ORDINARY, COMPACTED = "ordinary", "compacted"
DEAD_LETTER, RETRY, STREAMS, TOOL = "dead-letter", "retry", "streams", "tool"
# A word of a name, between what separates words or at its ends.
_WORD = r"(?:^|[-_.])(?:{})(?:$|[-_.\d])"
# Spring Kafka: .DLT and -dlt, -retry-0; Kafka Connect's errors.deadletterqueue.topic.name: dlq-….
_DEAD = re.compile(
    _WORD.format(
        "dlqs?|dlts?|dead[-_.]?letters?(?:[-_.]?(?:queues?|topics?))?|parking[-_.]?lot|poison"
    )
    + r"|[-_.]errors?$",
    re.IGNORECASE,
)
_RETRY = re.compile(_WORD.format("retry|retries|retryable"), re.IGNORECASE)
# InternalTopologyBuilder, and SubscriptionJoinForeignKey's two topics.
_STREAMS = re.compile(
    r"-(?:changelog|repartition)$|-subscription-(?:registration|response)(?:-\d+)?(?:-topic)?$"
)


def kind_of(topic: str, *, is_system: bool, cleanup_policy: str | None) -> str | None:
    """One of the kinds above; None where the name says nothing and the policy is not known.

    `is_system`: as `analytics.readers.topics` has it. A compacted topic is told apart from an
    ordinary one: it keeps each key's newest value, which may be read long after the last write.
    """
    if is_system:
        return TOOL
    for kind, pattern in ((STREAMS, _STREAMS), (DEAD_LETTER, _DEAD), (RETRY, _RETRY)):
        if pattern.search(topic):
            return kind
    if cleanup_policy is None:
        return None
    return COMPACTED if "compact" in cleanup_policy else ORDINARY


def tool(topic: str, kind: str | None) -> str | None:
    """Whose topic it is, where that is known."""
    if kind == STREAMS:
        return "Kafka Streams"
    return (tool_of(topic) or "Kafka") if kind == TOOL else None
