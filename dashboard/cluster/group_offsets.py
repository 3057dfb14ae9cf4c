"""Committed offsets of many groups at once: OffsetFetch, stable offsets only, per coordinator."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.cluster.connection import Connection, chunks
from dashboard.cluster.kafka_errors import error_name
from dashboard.cluster.messages import OffsetFetchRequest
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError
from dashboard.model import GroupOffset

_MANY_GROUPS_SINCE = 8  # KIP-709
_NAMES_UNTIL = 9  # v10 names topics by id alone (KIP-848)
_STABLE_SINCE = 7  # KIP-447
_GROUPS_PER_REQUEST = 200


@dataclass(frozen=True, slots=True)
class GroupOffsetsAnswer:
    """Offsets, sorted; per group the error that hid them; groups that ended meanwhile."""

    offsets: tuple[GroupOffset, ...]
    errors: dict[str, str]
    vanished: tuple[str, ...]


def read_group_offsets(
    connection: Connection, groups: Mapping[int, list[str]]
) -> GroupOffsetsAnswer:
    """All committed offsets of groups (coordinator's broker id -> group ids).

    Stable only: an offset inside an open transaction is an error of its partition, not a guess.
    A partition without a commit has None.
    """
    replies = connection.ask_each({i: _question(names) for i, names in groups.items() if names})
    offsets: list[GroupOffset] = []
    errors: dict[str, str] = {}
    vanished: list[str] = []
    for broker_id, reply in replies.items():
        if isinstance(reply, ClusterError):
            errors.update(dict.fromkeys(groups[broker_id], reply.code))
            continue
        for group_id, found in reply:
            error = error_name(found.error_code)
            if error == "GROUP_ID_NOT_FOUND":
                vanished.append(group_id)
            elif error:
                errors[group_id] = error
            else:
                offsets += _offsets(group_id, found)
    ordered = sorted(offsets, key=lambda o: (o.group_id, o.topic, o.partition))
    return GroupOffsetsAnswer(tuple(ordered), errors, tuple(vanished))


def _question(names: list[str]) -> Callable[[Wire, float], list[tuple[str, Any]]]:
    def ask(wire: Wire, deadline: float) -> list[tuple[str, Any]]:
        version = wire.version(OffsetFetchRequest, _NAMES_UNTIL)
        patience = deadline - time.monotonic()
        # Of tens of thousands of groups each batch, not all of them, has the broker's time.
        if version < _MANY_GROUPS_SINCE:
            return [(n, wire.ask(_one(version, n), time.monotonic() + patience)) for n in names]
        answers = [
            wire.ask(_many(version, batch), time.monotonic() + patience)
            for batch in chunks(names, _GROUPS_PER_REQUEST)
        ]
        return [(group.group_id, group) for answer in answers for group in answer.groups]

    return ask


def _many(version: int, names: list[str]) -> Callable[[Wire], Any]:
    one = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [one(group_id=name, topics=None, version=version) for name in names]
    return lambda _: OffsetFetchRequest(version=version, groups=groups, require_stable=True)


def _one(version: int, name: str) -> Callable[[Wire], Any]:
    request = OffsetFetchRequest(version=version, group_id=name, topics=None)
    if version >= _STABLE_SINCE:
        request.require_stable = True
    return lambda _: request


def _offsets(group_id: str, found: Any) -> list[GroupOffset]:
    return [
        GroupOffset(
            group_id,
            topic.name,
            p.partition_index,
            p.committed_offset if p.committed_offset >= 0 and not p.error_code else None,
            error_name(p.error_code),
        )
        for topic in found.topics
        for p in topic.partitions
    ]
