"""Start offsets of share groups: DescribeShareGroupOffsets (KIP-932), per coordinator, batched."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from dashboard.cluster.connection import Connection, chunks
from dashboard.cluster.group_offsets import GroupOffsetsAnswer
from dashboard.cluster.kafka_errors import error_name
from dashboard.cluster.messages import DescribeShareGroupOffsetsRequest
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError
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
    replies = connection.ask_each({i: _question(names) for i, names in groups.items() if names})
    offsets: list[GroupOffset] = []
    errors: dict[str, str] = {}
    vanished: list[str] = []
    for broker_id, reply in replies.items():
        if isinstance(reply, ClusterError):
            errors.update(dict.fromkeys(groups[broker_id], reply.code))
            continue
        for found in reply:
            error = _error(found)
            if error == "GROUP_ID_NOT_FOUND":
                vanished.append(found.group_id)
            elif error:
                errors[found.group_id] = error
            else:
                offsets += _offsets(found)
    ordered = sorted(offsets, key=lambda o: (o.group_id, o.topic, o.partition))
    return GroupOffsetsAnswer(tuple(ordered), errors, tuple(vanished))


def _question(names: list[str]) -> Callable[[Wire, float], list[Any]]:
    def ask(wire: Wire, deadline: float) -> list[Any]:
        patience = deadline - time.monotonic()
        answers = [
            wire.ask(_request(batch), time.monotonic() + patience)
            for batch in chunks(names, _GROUPS_PER_REQUEST)
        ]
        return [group for answer in answers for group in answer.groups]

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
