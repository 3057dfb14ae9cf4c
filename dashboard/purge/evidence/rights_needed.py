"""May we delete where a plan wants to? Asked of the brokers (KIP-430), before anybody confirms.

DeleteRecords needs DELETE on the topic (Kafka's `KafkaApis.handleDeleteRecordsRequest`); without it
a purge is planned, confirmed and sent, and only the leader's answer says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from dashboard.core.canonical import Text
from dashboard.core.errors import LowwaterError
from dashboard.domain import rights
from dashboard.domain.model import Authorized


class Tells(Protocol):
    """What is asked of a cluster: `dashboard.cluster.live.LiveCluster`."""

    def authorized(self, topics: Iterable[str], groups: Iterable[str]) -> Authorized: ...
    def principal(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class MissingRight:
    """DELETE on a topic that a principal, None where it cannot be told, does not have."""

    topic: Text
    principal: Text | None

    @property
    def said(self) -> str:
        """Which right, whose, and the line that gives it, as docs/acls.md spells it."""
        return (
            f"{self.principal or 'the principal'} has no DELETE on topic {self.topic}: {self.line}"
        )

    @property
    def line(self) -> str:
        """The kafka-acls line."""
        principal = self.principal or rights.ANYBODY
        return rights.command(rights.DELETE_TOPIC, principal, self.topic)

    def to_json(self) -> dict[str, str | None]:
        """One row of `rights_missing`."""
        return {
            "topic": self.topic, "operation": rights.DELETE_TOPIC.operation,
            "principal": self.principal, "command": self.line,
        }  # fmt: skip


def may_delete(live: Tells, topics: Collection[str]) -> dict[str, bool | None]:
    """Topic -> whether we may delete its records; None: brokers before 2.3 do not tell.

    Raises ClusterError when no broker answers.
    """
    told = live.authorized(sorted(topics), ()).topics
    delete = rights.DELETE_TOPIC.operation
    held: dict[str, bool | None] = {}
    for topic in sorted(topics):
        operations = told.get(topic)
        held[topic] = None if operations is None else delete in operations
    return held


def missing(live: Tells, topics: Collection[str]) -> tuple[MissingRight, ...] | None:
    """The topics where we may not, sorted; what a broker does not tell is not missing.

    None: nobody could be asked. It is said beside a plan, and fails none.
    """
    try:
        held = may_delete(live, topics)
        principal = live.principal()
    except LowwaterError:
        return None
    return tuple(MissingRight(topic, principal) for topic in held if held[topic] is False)
