"""Which ACLs each feature needs, and what is lost without each: the one table of them; and whether
we may delete where a plan wants to, asked of the brokers (KIP-430) before anybody confirms.

`lowwater doctor` prints it, and a test holds docs/acls.md to it. Rights that another one implies
(Kafka's `AuthorizerUtils`: READ, WRITE, DELETE and ALTER imply DESCRIBE, ALTER_CONFIGS implies
DESCRIBE_CONFIGS) need no ACL of their own.

DeleteRecords needs DELETE on the topic (Kafka's `KafkaApis.handleDeleteRecordsRequest`); without it
a purge is planned, confirmed and sent, and only the leader's answer says so.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from dashboard.core.canonical import Text
from dashboard.core.errors import LowwaterError
from dashboard.domain.model import Authorized

DASHBOARD, OPERATOR = "dashboard", "operator"
ANYBODY = "User:NAME"
OFFSETS_TOPIC = "__consumer_offsets"  # who may not see it cannot tell who coordinates which groups


@dataclass(frozen=True, slots=True)
class Right:
    """One ACL in the words of kafka-acls; `role` is who needs it first: an operator needs all.

    `pattern` is "*", the cluster's only name, or "" where the operator chooses the names.
    """

    operation: str
    resource: str
    pattern: str
    role: str
    allows: str
    lost: str

    @property
    def name(self) -> str:
        """Such as `Describe Topic`: how errors and doctor call it."""
        return f"{self.operation} {self.resource}"


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that a user asks for, the rights that it needs, and how its loss shows."""

    name: str
    needs: tuple[Right, ...]
    without: str


DESCRIBE_TOPIC = Right(
    "Describe", "Topic", "*", DASHBOARD,
    "topics, partitions, offsets of leaders and replicas, leader epochs; of `__consumer_offsets` "
    "whether every coordinator listed its groups",
    "a topic without it shows by its bytes at most; it has no findings, its folders are never "
    "touched, and an operator who may describe it plans behind stale-history; "
    "a group of the consumer or Streams protocol (KIP-848, KIP-1071) that reads it hides its "
    "members, so every purge is refused, and without it on `__consumer_offsets` too",
)  # fmt: skip
CONFIGS_TOPIC = Right(
    "DescribeConfigs", "Topic", "*", DASHBOARD,
    "cleanup.policy, retention and segment settings of topics",
    "such a topic cannot be planned (CONFIGS_UNREADABLE), and its orphan folders stay",
)  # fmt: skip
DESCRIBE_CLUSTER = Right(
    "Describe", "Cluster", "kafka-cluster", DASHBOARD,
    "sizes of replicas and disks, the complete list of groups, reassignments",
    "bytes are not measurable; groups may be hidden, so every purge is refused",
)  # fmt: skip
CONFIGS_CLUSTER = Right(
    "DescribeConfigs", "Cluster", "kafka-cluster", DASHBOARD,
    "brokers' own settings: intervals, throttles",
    "Kafka's defaults are assumed: a receipt may be final too soon; a throttle is not named",
)  # fmt: skip
DESCRIBE_GROUP = Right(
    "Describe", "Group", "*", DASHBOARD,
    "committed offsets and members of groups; of names that nobody has (`lowwater-probe-0`) "
    "whether coordinators have loaded theirs",
    "a group without it may want anything, so every purge is refused",
)  # fmt: skip
READ_TOPIC = Right(
    "Read", "Topic", "", OPERATOR,
    "sampled estimates of bytes (`plan --sample`); a look at records (`preview --records`); "
    "moving a waived group; keeping records in an archive",
    "estimates come from sizes alone; no record is shown; a waived group stays where it is; "
    "what cannot be kept is not purged",
)  # fmt: skip
DELETE_TOPIC = Right(
    "Delete", "Topic", "", OPERATOR,
    "DeleteRecords: purges and policies; brokers have no smaller right for it",
    "nothing can be purged there (TOPIC_AUTHORIZATION_FAILED)",
)  # fmt: skip
READ_GROUP = Right(
    "Read", "Group", "", OPERATOR,
    "moving the offsets of a waived group (`plan --move-waived`)",
    "a waived group stays where it is (GROUP_AUTHORIZATION_FAILED)",
)  # fmt: skip

RIGHTS = (
    DESCRIBE_TOPIC, CONFIGS_TOPIC, DESCRIBE_CLUSTER, CONFIGS_CLUSTER, DESCRIBE_GROUP,
    DELETE_TOPIC, READ_TOPIC, READ_GROUP,
)  # fmt: skip

# Rights that hold another one too: without an ACL of its own it is then still there.
IMPLIED_BY = {
    DESCRIBE_TOPIC: (READ_TOPIC, DELETE_TOPIC),
    DESCRIBE_GROUP: (READ_GROUP,),
}

_PLAN = (DESCRIBE_TOPIC, CONFIGS_TOPIC, DESCRIBE_CLUSTER, DESCRIBE_GROUP)
FEATURES = (
    Feature("collect", (DESCRIBE_TOPIC,), "the topic has no offsets; log dirs alone may name it"),
    Feature("groups", (DESCRIBE_TOPIC, DESCRIBE_CLUSTER, DESCRIBE_GROUP), "groups_incomplete"),
    Feature("log dirs", (DESCRIBE_CLUSTER,), "CLUSTER_AUTHORIZATION_FAILED; sizes are unknown"),
    Feature("topic configs", (DESCRIBE_TOPIC, CONFIGS_TOPIC), "TOPIC_AUTHORIZATION_FAILED"),
    Feature("broker configs", (CONFIGS_CLUSTER,), "CLUSTER_AUTHORIZATION_FAILED"),
    Feature("reassignments", (DESCRIBE_CLUSTER,), "CLUSTER_AUTHORIZATION_FAILED"),
    Feature("epochs", (DESCRIBE_TOPIC,), "TOPIC_AUTHORIZATION_FAILED; such a partition waits"),
    Feature("plan", _PLAN, "TOPIC_NOT_FOUND, CONFIGS_UNREADABLE or guard groups-incomplete"),
    Feature("triage", _PLAN, "NOTHING_SAFE, with the topics not read or why groups may be hidden"),
    Feature("purge", (*_PLAN, DELETE_TOPIC), "TOPIC_AUTHORIZATION_FAILED; nothing is purged"),
    Feature(
        "policies",
        (*_PLAN, DELETE_TOPIC),
        "as a purge, in the policy's status; or no topic matches",
    ),
    Feature(
        "sampling",
        (DESCRIBE_TOPIC, CONFIGS_TOPIC, DESCRIBE_CLUSTER, READ_TOPIC),
        "the estimate's method is not `sampled`",
    ),
    Feature(
        "records",
        (DESCRIBE_TOPIC, READ_TOPIC),
        "TOPIC_AUTHORIZATION_FAILED, with the right and its line; no record is shown",
    ),
    Feature(
        "move-waived",
        (*_PLAN, DELETE_TOPIC, READ_TOPIC, READ_GROUP),
        "the move is refused by name; the purge itself goes on",
    ),
    Feature("orphan check", (DESCRIBE_TOPIC, DESCRIBE_CLUSTER), "the folder stays: `unknown`"),
)


def commands(role: str, principal: str = ANYBODY) -> tuple[str, ...]:
    """Ready kafka-acls lines that give `role` its rights, those of the dashboard not repeated.

    Where the operator chooses names, `orders.` (prefixed) and `dead-group` stand for them.
    """
    grouped: dict[tuple[str, str], list[str]] = {}
    for right in RIGHTS:
        if right.role == role:
            grouped.setdefault((right.resource, right.pattern), []).append(right.operation)
    return tuple(
        _command(principal, resource, pattern, operations)
        for (resource, pattern), operations in grouped.items()
    )


def command(right: Right, principal: str = ANYBODY, name: str = "") -> str:
    """The kafka-acls line that gives one right, on one `name` of a topic or group if given."""
    return _command(principal, right.resource, name or right.pattern, [right.operation])


def _quoted(name: str) -> str:
    """In quotes always, as the page has it: a lone star means something to every shell."""
    return shlex.quote(name) if "'" in name else f"'{name}'"


def _command(principal: str, resource: str, pattern: str, operations: list[str]) -> str:
    named = " ".join(f"--operation {operation}" for operation in operations)
    if resource == "Cluster":
        where = "--cluster"
    elif pattern:
        where = f"--{resource.lower()} {_quoted(pattern)}"
    elif resource == "Topic":
        where = "--topic 'orders.' --resource-pattern-type prefixed"
    else:
        where = "--group 'dead-group'"
    return (
        "kafka-acls --bootstrap-server HOST:PORT --add "
        f"--allow-principal {shlex.quote(principal)} {named} {where}"
    )


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
        principal = self.principal or ANYBODY
        return command(DELETE_TOPIC, principal, self.topic)

    def to_json(self) -> dict[str, str | None]:
        """One row of `rights_missing`."""
        return {
            "topic": self.topic, "operation": DELETE_TOPIC.operation,
            "principal": self.principal, "command": self.line,
        }  # fmt: skip


def may_delete(live: Tells, topics: Collection[str]) -> dict[str, bool | None]:
    """Topic -> whether we may delete its records; None: brokers before 2.3 do not tell.

    Raises ClusterError when no broker answers.
    """
    told = live.authorized(sorted(topics), ()).topics
    delete = DELETE_TOPIC.operation
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
