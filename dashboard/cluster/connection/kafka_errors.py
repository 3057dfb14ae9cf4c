"""Kafka's error codes by name, and which of them a read may simply try again."""

from __future__ import annotations

from functools import cache

from dashboard.cluster.protocol.messages import for_code

# After a restart or an election the metadata of broker and client differ for a moment: the
# same read succeeds a little later. Nothing but reads is ever repeated.
RETRIABLE_READ_ERRORS = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "REPLICA_NOT_AVAILABLE",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "UNSTABLE_OFFSET_COMMIT",
    }
)
UNSUPPORTED_VERSION = 35
# Names that the Java client uses where kafka-python's table has others.
_NAMES = {
    -1: "UNKNOWN_SERVER_ERROR",
    6: "NOT_LEADER_OR_FOLLOWER",
    17: "INVALID_TOPIC_EXCEPTION",
}


@cache
def error_name(code: int) -> str | None:
    """Kafka's own name of an error code (org.apache.kafka.common.protocol.Errors), None for 0."""
    if code == 0:
        return None
    if code in _NAMES:
        return _NAMES[code]
    known = for_code(code)
    name = str(getattr(known, "message", "") or "")
    return name if name.isupper() and name != "UNKNOWN" else f"ERROR_{code}"
