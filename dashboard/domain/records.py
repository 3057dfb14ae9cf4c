"""Records as somebody looks at them before a purge: what a consumer read, nothing judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from dashboard.domain.model import TopicPartition

TimeType = Literal["create", "append"]
TIMED_OUT = "TIMED_OUT"
Form = Literal["text", "json", "hex"]  # how a value is shown
FORMS: tuple[Form, ...] = get_args(Form)
MOST_SAMPLED = 100  # of one partition, beside the first and the last record
# A whole record as a producer takes it: key, value, time in ms (-1: none), headers in their order.
Row = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]] | None]
Chunk = tuple[list[int], list[Row]]  # offsets, and the record at each
Took = Callable[[str, int, int], None]  # hears: of a topic, a broker sent so many bytes


@dataclass(frozen=True, slots=True)
class Content:
    """A key, a value or a header's value: its whole size, and its first bytes.

    `head` is None where it was not asked for. A null has no Content, an empty one has 0 bytes.
    """

    size_bytes: int
    head: bytes | None

    @property
    def cut(self) -> bool:
        """Whether bytes are missing behind the head."""
        return self.head is not None and len(self.head) < self.size_bytes


class Header(NamedTuple):
    """One header of a record: names may repeat, a value may be null."""

    name: str
    value: Content | None


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `timestamp_ms` is what its producer (`create`) or its leader (`append`) set.

    None where it has none. `value` None is a null: on a compacted topic a tombstone.
    """

    offset: int
    timestamp_ms: int | None
    time_type: TimeType | None
    key: Content | None
    value: Content | None
    headers: tuple[Header, ...]

    @property
    def size_bytes(self) -> int:
        """Key, value and headers, without what the log adds, before compression."""
        parts = [self.key, self.value, *(header.value for header in self.headers)]
        names = sum(len(header.name.encode()) for header in self.headers)
        return names + sum(part.size_bytes for part in parts if part is not None)


class Span(NamedTuple):
    """Where to look: from the log start offset up to a target, which stays."""

    start_offset: int
    target_offset: int


@dataclass(frozen=True, slots=True)
class LookedAt:
    """Records of one partition below its target: the first, the last, and some between them.

    `sampled` rise by offset, hold neither of the two, and may be fewer than were asked for: where
    records are compacted away several samples find the same one. `error` is Kafka's name,
    TIMED_OUT, or of a header whose name is no text our words: then what was read until then; `why`
    says it with the next step.
    """

    topic: str
    partition: int
    log_start_offset: int | None
    target_offset: int
    first: Record | None = None
    last: Record | None = None
    sampled: Sequence[Record] = ()
    error: str | None = None
    why: str = ""

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def records(self) -> list[Record]:
        """All of them, each once, by offset."""
        found = {r.offset: r for r in (self.first, *self.sampled, self.last) if r is not None}
        return [found[offset] for offset in sorted(found)]
