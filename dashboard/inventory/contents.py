"""Reads the small files of a log dir: meta.properties, partition.metadata, checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

LONGEST_LINE = 4096

_TOPIC_ID = re.compile(r"topic_id:\s*([A-Za-z0-9_-]{22})\s*")
_ENTRY = re.compile(rb"(\S{1,249})\s+([0-9]{1,10})\s+(-?[0-9]{1,19})\s*")
_NO_TOPIC_ID = "A" * 22
_LARGEST_PARTITION = 2**31 - 1
_LARGEST_OFFSET = 2**63 - 1


class DamagedError(Exception):
    """A file that does not hold what its name says; the text says where and what."""


@dataclass(frozen=True, slots=True)
class Meta:
    """`meta.properties` of one log dir; null where the file does not say it."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


def parse_meta(lines: Iterable[bytes]) -> Meta:
    """Cluster, node and directory id; `broker.id` is the name that ZooKeeper's version 0 had.

    Raises DamagedError when neither cluster nor node is named.
    """
    found: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.decode("utf-8", "replace").partition("=")
        if equals and not key.lstrip().startswith("#"):
            found[key.strip()] = value.strip().replace("\\", "")
    node = found.get("node.id", found.get("broker.id", ""))
    node_id = int(node) if re.fullmatch("[0-9]{1,9}", node) else None
    meta = Meta(found.get("cluster.id") or None, node_id, found.get("directory.id") or None)
    if meta.cluster_id is None and meta.node_id is None:
        raise DamagedError("it names neither a cluster nor a node")
    return meta


def parse_topic_id(lines: Iterable[bytes]) -> str:
    """The topic id of a `partition.metadata`, 22 characters (KIP-516). Raises DamagedError."""
    for line in lines:
        match = _TOPIC_ID.fullmatch(line.decode("ascii", "replace"))
        if match and match[1] != _NO_TOPIC_ID:
            return match[1]
    raise DamagedError("it holds no topic id")


def parse_checkpoint(lines: Iterable[bytes]) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset of each entry (server.common.CheckpointFile, version 0).

    One at a time: a broker has as many as it has partitions. A new broker's file is empty. Raises
    DamagedError when it meets what does not belong there; entries before it were given already.
    """
    numbered = enumerate(lines, start=1)
    first = next(numbered, None)
    if first is None:
        return
    if _number(first[1]) != 0:
        raise DamagedError("line 1 is not the version 0")
    expected = _number(next(numbered, (2, b""))[1])
    if expected is None:
        raise DamagedError("line 2 is not a count")
    given = 0
    for number, line in numbered:
        match = _ENTRY.fullmatch(line)
        if match is None:
            raise DamagedError(f"line {number} is not `topic partition offset`")
        partition, offset = int(match[2]), int(match[3])
        if partition > _LARGEST_PARTITION or not -_LARGEST_OFFSET <= offset <= _LARGEST_OFFSET:
            raise DamagedError(f"line {number} holds a number out of range")
        given += 1
        yield match[1].decode("utf-8", "backslashreplace"), partition, offset
    if given != expected:
        raise DamagedError(f"it announces {expected} entries and holds {given}")


def _number(line: bytes) -> int | None:
    text = line.strip()
    return int(text) if text.isdigit() and len(text) < 10 else None
