"""What an operator may ask for as a target, how much of a log it keeps, and Kafka's offsets JSON in
and out.

A target is spelt `committed`, `timestamp:ISO8601Z`, `offset:N`, `high-watermark`, `keep:24h`,
`keep:10GiB` or `retention`; an offsets file names one offset per partition. -1 is accepted only
where the operator typed it; it means "the high watermark seen" and is never sent.

Kafka deletes a segment by `retention.ms` once its youngest record is too old, and by
`retention.bytes` while what is left stays at least that large (UnifiedLog,
deleteRetentionMsBreachedSegments and deleteRetentionSizeBreachedSegments). A target is an offset,
so below the first young record all goes, of its own segment too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Literal

from msgspec import Meta, Struct

from dashboard.core.canonical import Offset, PartitionId, Text, parse_json, read
from dashboard.core.clock import format_time, parse_duration, parse_time
from dashboard.core.errors import PlanError, UsageError
from dashboard.core.visible import is_unicode
from dashboard.core.words import parse_size
from dashboard.domain.model import TopicPartition
from dashboard.purge.plan.facts import PlanFacts

Kind = Literal["committed", "timestamp", "offset", "high-watermark", "keep", "retention", "file"]
_OFFSET = re.compile("[0-9]{1,19}")
_LARGEST_OFFSET = 2**63 - 1
HIGH_WATERMARK = -1  # as typed in an offsets file: "to the high watermark"


class _KafkasRow(Struct):
    topic: Text
    partition: PartitionId
    offset: Offset


class _KafkasFile(Struct):
    partitions: tuple[_KafkasRow, ...]
    version: Literal[1] = 1


class _OffsetsRow(_KafkasRow, forbid_unknown_fields=True):
    pass


class _OffsetsFile(Struct, forbid_unknown_fields=True):
    partitions: Annotated[tuple[_OffsetsRow, ...], Meta(min_length=1)]
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Target:
    """One choice for all partitions; `offset` or `at` is set for the kinds that need it.

    `offsets` holds the offset of each partition for the kind `file`, with -1 as typed. Kind `keep`
    has `keep_for` (what is younger stays) or `keep_bytes` (as many of each leader's log stay), and
    `keep` as it was typed.
    """

    kind: Kind
    offset: int | None = None
    at: datetime | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    keep: str = ""
    keep_for: timedelta | None = None
    keep_bytes: int | None = None

    @property
    def text(self) -> str:
        """As `--to` spells it; `file` for an offsets file."""
        if self.kind == "offset":
            return f"offset:{self.offset}"
        if self.kind == "timestamp" and self.at is not None:
            return f"timestamp:{format_time(self.at)}"
        return f"keep:{self.keep}" if self.kind == "keep" else self.kind


def parse_target(text: str) -> Target:
    """A target as `--to` spells it. Raises UsageError."""
    kind, _, value = text.strip().partition(":")
    if kind in ("committed", "high-watermark", "retention") and not value:
        return Target(kind)  # type: ignore[arg-type]  # one of three kinds
    if kind == "timestamp" and value:
        return Target("timestamp", at=_since_1970(parse_time(value), text))
    if kind == "offset" and _OFFSET.fullmatch(value) and int(value) <= _LARGEST_OFFSET:
        return Target("offset", offset=int(value))
    if kind == "offset" and value == "-1":
        return Target("high-watermark")
    if kind == "keep" and value:
        return parse_keep(value)
    raise UsageError(
        f"'{text}' is not a target",
        "Write committed, timestamp:2026-03-01T04:00:00Z, offset:5000, high-watermark, keep:24h, "
        "keep:10GiB or retention.",
        code="TARGET_INVALID",
    )


def _since_1970(at: datetime, text: str) -> datetime:
    # Milliseconds below 0 are no times to Kafka: -1, of a record that has none, asks for the end.
    if at.timestamp() < 0:
        raise UsageError(
            f"'{text}' lies before 1970, where Kafka knows no times",
            "Write the time of the first record to keep: timestamp:2026-03-01T04:00:00Z.",
            code="TARGET_INVALID",
        )
    return at


def parse_keep(text: str) -> Target:
    """`24h` or `10GiB`: how much of each partition stays. Raises UsageError KEEP_INVALID."""
    typed = text.strip()
    size = parse_size(typed)
    if size:
        return Target("keep", keep=typed, keep_bytes=size)
    try:
        age = parse_duration(typed)
    except UsageError:
        age = timedelta(0)
    if age <= timedelta(0):
        raise UsageError(
            f"'{text}' is neither a time nor a size to keep",
            "Write hours such as 24h or 7d, or bytes such as 500MiB or 10GiB; more than 0.",
            code="KEEP_INVALID",
        )
    return Target("keep", keep=typed, keep_for=age)


def read_offsets_json(text: str, where: str, *, as_kafka: bool = False) -> Target:
    """The file of Kafka's delete-records tool as a target of kind `file`.

    Format: `{"partitions":[{"topic":"t","partition":0,"offset":5}],"version":1}`, where version
    may be left out as in Kafka's `DeleteRecordsCommand`. Raises PlanError OFFSETS_INVALID with
    the JSON path of what is wrong; `where` names the file. `as_kafka`: a list without partitions
    and fields that nobody knows are no error, as they are none to that tool.
    """
    try:
        document = parse_json(text, _unique_keys)
        file = read(document, _KafkasFile) if as_kafka else read(document, _OffsetsFile)
    except ValueError as error:
        named = str(error) if str(error).startswith("$") else f"is not JSON: {error}"
        raise _invalid(where, named) from error
    offsets: dict[TopicPartition, int] = {}
    for index, row in enumerate(file.partitions):
        path, key = f"$.partitions[{index}]", TopicPartition(row.topic, row.partition)
        if not is_unicode(row.topic):
            raise _invalid(where, f"{path}.topic is not a topic name")
        if key in offsets:
            raise _invalid(where, f"{path} names {row.topic}-{row.partition} a second time")
        offsets[key] = row.offset
    return Target("file", offsets=offsets)


def write_offsets_json(offsets: Mapping[TopicPartition, int]) -> str:
    """`offsets` in the format of Kafka's delete-records tool, sorted by topic and partition."""
    rows = [
        {"topic": tp.topic, "partition": tp.partition, "offset": offset}
        for tp, offset in sorted(offsets.items())
    ]
    return json.dumps({"partitions": rows, "version": 1}, ensure_ascii=False)


def _unique_keys(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:  # JSON's last one wins silently; a purge must not
            raise ValueError(f"key '{key}' stands twice in one object")
        found[key] = value
    return found


def _invalid(where: str, what: str) -> PlanError:
    return PlanError(
        f"{where} {what}",
        'Write {"partitions":[{"topic":"t","partition":0,"offset":5}],"version":1}; an offset of '
        "-1 is the high watermark.",
        code="OFFSETS_INVALID",
    )


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays of a partition: records from `since` on, the last `size_bytes`; None: no limit."""

    since: datetime | None = None
    size_bytes: int | None = None
    problem: str | None = None


def kept(
    facts: PlanFacts, keys: Iterable[TopicPartition], target: Target, now: datetime
) -> dict[TopicPartition, Kept]:
    """What the target keeps of each partition; {} for kinds that do not say."""
    if target.kind == "timestamp":
        return dict.fromkeys(keys, Kept(since=target.at))
    if target.kind == "keep":
        since = _ago(now, target.keep_for) if target.keep_for is not None else None
        return dict.fromkeys(keys, Kept(since, target.keep_bytes))
    if target.kind == "retention":
        return {key: _by_retention(facts.configs.get(key.topic, {}), now) for key in keys}
    return {}


def _by_retention(configs: Mapping[str, str | None], now: datetime) -> Kept:
    limits = {}
    for name in ("retention.ms", "retention.bytes"):
        value = configs.get(name)
        if value is None:
            return Kept(problem=f"the topic's {name} cannot be read")
        limits[name] = int(value)
    age_ms, size_bytes = limits["retention.ms"], limits["retention.bytes"]
    return Kept(
        since=_ago(now, timedelta(milliseconds=age_ms)) if 0 <= age_ms <= OLDEST_MS else None,
        size_bytes=size_bytes if size_bytes >= 0 else None,
    )


# Kafka's "for ever" may also be written as a huge number, which is no timedelta.
OLDEST_MS = 1000 * 365 * 86_400_000


def _ago(now: datetime, age: timedelta) -> datetime | None:
    """None where no record can be as old: before the first timestamp that Kafka knows."""
    epoch = datetime.fromtimestamp(0, now.tzinfo)
    return now - age if age <= now - epoch else None


def by_bytes(target: str) -> bool:
    """Whether a target, as `--to` spells it, may keep a number of bytes: none may be lost since."""
    kind, _, _ = target.partition(":")
    if kind == "keep":
        return parse_target(target).keep_bytes is not None
    return kind == "retention"
