"""Principals that have certain rights and no other: a SCRAM user each, all made at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from dashboard.domain import rights
from dashboard.domain.rights import Right
from tests.brokers.secured import SecuredCluster
from tests.brokers.workload import ANSWERS_WITHIN

SECRET = "principal-secret"
_OPERATIONS = {
    "Read": AclOperation.READ,
    "Delete": AclOperation.DELETE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}
_RESOURCES = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "Cluster": ResourceType.BROKER,  # librdkafka's word
}


def without(missing: Right) -> tuple[Right, ...]:
    """The whole table but one right, and but those that would imply it."""
    gone = {missing, *rights.IMPLIED_BY.get(missing, ())}
    return tuple(right for right in rights.RIGHTS if right not in gone)


def make(cluster: SecuredCluster, wanted: Mapping[str, Sequence[Right]]) -> None:
    """User -> its rights, on every topic and group where the table leaves names open."""
    admin = AdminClient(cluster.plaintext())
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    users = [UserScramCredentialUpsertion(user, info, SECRET.encode()) for user in wanted]
    for done in admin.alter_user_scram_credentials(users).values():
        done.result(ANSWERS_WITHIN)
    bindings = [binding(f"User:{user}", right) for user, held in wanted.items() for right in held]
    for made in admin.create_acls(bindings).values() if bindings else ():
        made.result(ANSWERS_WITHIN)


def binding(principal: str, right: Right, name: str = "") -> AclBinding:
    """One right as an ACL; `name` narrows it down to one topic or group."""
    return AclBinding(
        _RESOURCES[right.resource], name or right.pattern or "*", ResourcePatternType.LITERAL,
        principal, "*", _OPERATIONS[right.operation], AclPermissionType.ALLOW,
    )  # fmt: skip


def client(cluster: SecuredCluster, user: str) -> dict[str, str]:
    return cluster.sasl_scram(user, SECRET)
