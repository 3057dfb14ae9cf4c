"""The small answers of the broker simulator, built from kafka-python's schemas."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    ListGroupsResponse,
    ListPartitionReassignmentsResponse,
)

from dashboard.cluster.group_members import PROBE
from dashboard.cluster.protocol.messages import (
    ConsumerGroupDescribeResponse,
    ConsumerProtocolAssignment,
)
from tests.bench.simulated_cluster import SimulatedCluster

# Newest versions by API key, as a release of today has them, where the product asks no other.
VERSIONS = {
    2: 9, 3: 12, 9: 9, 15: 5, 16: 5, 18: 3, 32: 4, 35: 4, 46: 0, 60: 1, 69: 0,
}  # fmt: skip
_DEFAULT = 5  # ConfigSource.DEFAULT_CONFIG


def configs(request: Any, version: int) -> Any:
    """Each key asked for with a value that names it."""
    one = DescribeConfigsResponse.DescribeConfigsResult
    entry = one.DescribeConfigsResourceResult
    results = [
        one(
            error_code=0,
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[
                entry(
                    name=key,
                    value=config_value(resource.resource_name, key),
                    read_only=False,
                    config_source=_DEFAULT,
                    is_sensitive=False,
                    synonyms=[],
                    config_type=0,
                    documentation=None,
                    version=version,
                )
                for key in resource.configuration_keys
            ],
            version=version,
        )
        for resource in request.resources
    ]
    return DescribeConfigsResponse(version=version, results=results)


def config_value(resource: str, key: str) -> str:
    """The value of a setting of a topic or a broker."""
    return f"{key} of {resource}"


def reassignments(version: int) -> Any:
    return ListPartitionReassignmentsResponse(
        version=version, error_code=0, error_message=None, topics=[]
    )


def groups(truth: SimulatedCluster, broker: int, version: int) -> Any:
    """ListGroups: those that this broker coordinates."""
    one = ListGroupsResponse.ListedGroup
    listed = [
        one(
            group_id=truth.group_id(group),
            protocol_type="consumer",
            group_state=truth.group_state(group),
            group_type=truth.group_type(group),
            version=version,
        )
        for group in truth.coordinated[broker]
    ]
    return ListGroupsResponse(version=version, error_code=0, groups=listed)


def classic_members(truth: SimulatedCluster, request: Any, version: int) -> Any:
    """DescribeGroups: one member that has every partition the group reads; or nobody's group."""
    one = DescribeGroupsResponse.DescribedGroup
    described = []
    for name in request.groups:
        is_there = not name.startswith(PROBE)
        members = [_classic_member(truth, name, version)] if is_there else []
        described.append(
            one(
                error_code=0,
                group_id=name,
                group_state=truth.group_state(_number(name)) if is_there else "Dead",
                protocol_type="consumer" if is_there else "",
                protocol_data="range" if is_there else "",
                members=members,
                authorized_operations=None,
                version=version,
            )
        )
    return DescribeGroupsResponse(version=version, groups=described)


def _classic_member(truth: SimulatedCluster, group_id: str, version: int) -> Any:
    return DescribeGroupsResponse.DescribedGroup.DescribedGroupMember(
        member_id="m",
        group_instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        member_metadata=b"",
        member_assignment=_assignment(truth, _number(group_id)),
        version=version,
    )


def consumer_members(truth: SimulatedCluster, request: Any, version: int) -> Any:
    """ConsumerGroupDescribe: the same for groups of the new protocol."""
    one = ConsumerGroupDescribeResponse.DescribedGroup
    described = []
    for name in request.group_ids:
        assigned = _new_assignment(truth, _number(name), version)
        member = one.Member(
            member_id="m",
            instance_id=None,
            rack_id=None,
            member_epoch=1,
            client_id="c",
            client_host="/127.0.0.1",
            subscribed_topic_names=[],
            subscribed_topic_regex=None,
            assignment=assigned,
            target_assignment=assigned,
            version=version,
        )
        described.append(
            one(
                error_code=0,
                error_message=None,
                group_id=name,
                group_state=truth.group_state(_number(name)),
                group_epoch=1,
                assignment_epoch=1,
                assignor_name="uniform",
                members=[member],
                version=version,
            )
        )
    return ConsumerGroupDescribeResponse(version=version, groups=described)


def _number(group_id: str) -> int:
    return int(group_id.rpartition("-")[2])


def _assignment(truth: SimulatedCluster, group: int) -> bytes:
    one = ConsumerProtocolAssignment.TopicPartition
    assigned = [
        one(topic=truth.names[topic], partitions=list(range(truth.counts[topic])), version=0)
        for topic, _ in truth.reads[group]
    ]
    made = ConsumerProtocolAssignment(version=0, assigned_partitions=assigned, user_data=None)
    return bytes(made.encode())


def _new_assignment(truth: SimulatedCluster, group: int, version: int) -> Any:
    made = ConsumerGroupDescribeResponse.DescribedGroup.Member.Assignment
    one = made.TopicPartitions
    topics = [
        one(
            topic_id=truth.topic_id(topic),
            topic_name=truth.names[topic],
            partitions=list(range(truth.counts[topic])),
            version=version,
        )
        for topic, _ in truth.reads[group]
    ]
    return made(topic_partitions=topics, version=version)
