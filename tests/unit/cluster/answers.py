"""Responses for the fake broker's script, built from the request they answer."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    DescribeGroupsResponse,
    DescribeLogDirsResponse,
    ListGroupsResponse,
)
from kafka.protocol.consumer import ListOffsetsResponse, OffsetFetchResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from dashboard.cluster.protocol.messages import DescribeShareGroupOffsetsResponse


def offsets_answer(request: Any, version: int, *, error: int = 0, offset: int | None = None) -> Any:
    """EARLIEST is 10, LATEST is 90, unless told otherwise."""
    one = ListOffsetsResponse.ListOffsetsTopicResponse
    part = one.ListOffsetsPartitionResponse
    topics = []
    for topic in request.topics:
        partitions = [
            part(
                partition_index=p.partition_index,
                error_code=error,
                timestamp=-1,
                offset=offset if offset is not None else (10 if p.timestamp == -2 else 90),
                leader_epoch=4,
                version=version,
            )
            for p in topic.partitions
        ]
        topics.append(one(name=topic.name, partitions=partitions, version=version))
    return ListOffsetsResponse(version=version, topics=topics)


def groups_answer(version: int, *groups: tuple[str, str, str], error: int = 0) -> Any:
    """ListGroups with (group id, type, state) each."""
    one = ListGroupsResponse.ListedGroup
    listed = [
        one(
            group_id=name,
            protocol_type="consumer",
            group_state=state,
            group_type=kind,
            version=version,
        )
        for name, kind, state in groups
    ]
    return ListGroupsResponse(version=version, error_code=error, groups=listed)


def subscription(*topics: str, version: int = 3) -> bytes:
    """What a classic consumer writes of the topics that it asks for."""
    written = ConsumerProtocolSubscription(
        topics=list(topics), user_data=None, owned_partitions=[], generation_id=-1, rack_id=None,
        version=version,
    )  # fmt: skip
    return bytes(written.encode(version=version))


def members_answer(
    request: Any, version: int, *, error: int = 0, state: str = "Stable", protocol: str = "range"
) -> Any:
    """DescribeGroups: each group with one member that asks for `orders`, or an error.

    It is assigned nothing; only a Stable group tells of protocol and subscriptions.
    """
    stable = state == "Stable"
    one = DescribeGroupsResponse.DescribedGroup
    member = one.DescribedGroupMember
    groups = [
        one(
            error_code=error,
            group_id=name,
            group_state="" if error else state,
            protocol_type="consumer",
            protocol_data=protocol if stable else "",
            members=[]
            if error or state == "Dead"
            else [
                member(
                    member_id="m",
                    group_instance_id=None,
                    client_id="c",
                    client_host="h",
                    member_metadata=subscription("orders") if stable else b"",
                    member_assignment=b"",
                    version=version,
                )
            ],
            authorized_operations=None,
            version=version,
        )
        for name in request.groups
    ]
    return DescribeGroupsResponse(version=version, groups=groups)


def committed_answer(
    request: Any,
    version: int,
    *,
    offset: int = 50,
    partition_error: int = 0,
    group_error: int = 0,
    metadata: str | None = None,
) -> Any:
    """OffsetFetch: every group asked for committed `offset` on orders-0; -2: on no topic at all."""
    one = OffsetFetchResponse.OffsetFetchResponseGroup
    one_topic = one.OffsetFetchResponseTopics
    part = one_topic.OffsetFetchResponsePartitions
    groups = []
    for group in request.groups:
        partition = part(
            partition_index=0,
            committed_offset=offset,
            committed_leader_epoch=-1,
            metadata=metadata,
            error_code=partition_error,
            version=version,
        )
        topics = [one_topic(name="orders", partitions=[partition], version=version)]
        groups.append(
            one(
                group_id=group.group_id,
                topics=[] if group_error or offset == -2 else topics,
                error_code=group_error,
                version=version,
            )
        )
    return OffsetFetchResponse(version=version, groups=groups)


def share_answer(
    request: Any, version: int, *, start: int = 50, partition_error: int = 0, group_error: int = 0
) -> Any:
    """DescribeShareGroupOffsets: every group asked for begins at `start` on orders-0."""
    one = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
    one_topic = one.DescribeShareGroupOffsetsResponseTopic
    part = one_topic.DescribeShareGroupOffsetsResponsePartition
    partition = part(
        partition_index=0, start_offset=start, leader_epoch=3, error_code=partition_error,
        error_message=None, version=version,
    )  # fmt: skip
    topic = one_topic(topic_name="orders", partitions=[partition], version=version)
    groups = [
        one(
            group_id=group.group_id,
            topics=[] if group_error else [topic],
            error_code=group_error,
            error_message=None,
            version=version,
        )
        for group in request.groups
    ]
    return DescribeShareGroupOffsetsResponse(version=version, groups=groups)


def log_dirs_answer(version: int, *, error: int = 0, empty: bool = False) -> Any:
    """DescribeLogDirs with one log dir of 1,000 bytes that holds orders-0 and a future copy."""
    one = DescribeLogDirsResponse.DescribeLogDirsResult
    one_topic = one.DescribeLogDirsTopic
    part = one_topic.DescribeLogDirsPartition
    partitions = [
        part(
            partition_index=0,
            partition_size=size,
            offset_lag=0,
            is_future_key=future,
            version=version,
        )
        for size, future in ((700, False), (30, True))
    ]
    result = one(
        error_code=0,
        log_dir="/data/a",
        topics=[one_topic(name="orders", partitions=partitions, version=version)],
        total_bytes=1000,
        usable_bytes=-1,
        version=version,
    )
    return DescribeLogDirsResponse(
        version=version, error_code=error, results=[] if error or empty else [result]
    )
