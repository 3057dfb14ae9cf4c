"""Start offsets of share groups: DescribeShareGroupOffsets (KIP-932), per coordinator, batched."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from dashboard.cluster.connection import Connection, chunks
from dashboard.cluster.group_offset_rows import GroupRows
from dashboard.cluster.group_offsets import GroupOffsetsAnswer, gathered
from dashboard.cluster.kafka_errors import error_name
from dashboard.cluster.messages import DescribeShareGroupOffsetsRequest
from dashboard.cluster.wire import Wire
from dashboard.model import GroupOffset

_GROUPS_PER_REQUEST = 200


def read_share_offsets(
    connection: Connection, groups: Mapping[int, list[str]]
) -> GroupOffsetsAnswer:
    """Start offsets of share groups (coordinator's broker id -> group ids) on all their topics.

    Records at or past a start offset are still wanted, those before it are done with. None: the
    group has not begun there (Kafka's -1), so what it will want is unknown. An error of one
    partition hides the whole group: `errors` then names it, API_UNSUPPORTED where the broker
    does not speak this.
    """
    return gathered(connection, {i: (names, _question(names)) for i, names in groups.items()})


def _question(names: list[str]) -> Callable[[Wire, float], list[GroupRows]]:
    def ask(wire: Wire, deadline: float) -> list[GroupRows]:
        patience = deadline - time.monotonic()
        answers = [
            wire.ask(_request(batch), time.monotonic() + patience)
            for batch in chunks(names, _GROUPS_PER_REQUEST)
        ]
        return [
            GroupRows(group.group_id, _error(group), _offsets(group))
            for answer in answers
            for group in answer.groups
        ]

    return ask


def _request(names: list[str]) -> Callable[[Wire], Any]:
    def make(at: Wire) -> Any:
        version = at.version(DescribeShareGroupOffsetsRequest)
        one = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
        groups = [one(group_id=name, topics=None, version=version) for name in names]
        return DescribeShareGroupOffsetsRequest(version=version, groups=groups)

    return make


def _error(found: Any) -> str | None:
    codes = [found.error_code]
    codes += [p.error_code for topic in found.topics for p in topic.partitions]
    return next((error for code in codes if (error := error_name(code))), None)


def _offsets(found: Any) -> list[GroupOffset]:
    return [
        GroupOffset(
            found.group_id,
            topic.topic_name,
            p.partition_index,
            p.start_offset if p.start_offset >= 0 else None,
        )
        for topic in found.topics
        for p in topic.partitions
    ]
