"""What the names inside a log dir mean: folder kinds, segment files, what is left out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dashboard.core.errors import UsageError
from dashboard.core.visible import is_unicode

# Every name that offsets were ever kept under. Brokers since 0.11 write the first three
# (kafka.log.LogManager, kafka.server.ReplicaManager); the others are of builds before KIP-107 was
# released, whose text has log-begin-offset-checkpoint.
CHECKPOINTS = (
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-begin-offset-checkpoint",
    "replication-low-watermark-checkpoint",
)
META = "meta.properties"
PARTITION_METADATA = "partition.metadata"
LARGEST_METADATA = 4096  # bytes; Kafka writes under a hundred
# They lie in a log dir and belong to no topic: KRaft's own log, and tiered storage's cache.
METADATA_LOG_PREFIX = "__cluster_metadata-"
REMOTE_INDEX_CACHE = "remote-log-index-cache"
# The characters of Kafka's own names, and `+` for lost+found. A name with any other one is never
# printed by the shell line, which so stays one entry a line.
PLAIN_CHARACTERS = "A-Za-z0-9._+-"

INDEX_SUFFIXES = frozenset((".index", ".timeindex", ".txnindex"))

_PLAIN = re.compile(f"[{PLAIN_CHARACTERS}]+")
_PARTITION = r"([A-Za-z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})"
_LIVE = re.compile(_PARTITION)
_MOVED = re.compile(_PARTITION + r"\.[^.]+-(delete|future|stray)")
_LARGEST_PARTITION = 2**31 - 1
_LARGEST_OFFSET = 2**63 - 1
_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Folder:
    """A partition folder. Kafka cuts the topic of a very long `-delete` or `-stray` name short."""

    directory: str
    topic: str
    partition: int
    kind: str  # live, delete, future or stray


def folder_of(name: str) -> Folder | None:
    """The partition folder of this name, or None (LocalLog.parseTopicPartitionName)."""
    moved = _MOVED.fullmatch(name)
    match = moved or _LIVE.fullmatch(name)
    if match is None or int(match[2]) > _LARGEST_PARTITION:
        return None
    return Folder(name, match[1], int(match[2]), moved[3] if moved else "live")


def is_left_out(name: str) -> bool:
    """Whether this folder of a log dir belongs to no topic by design."""
    return name == REMOTE_INDEX_CACHE or name.startswith(METADATA_LOG_PREFIX)


def is_plain(name: str) -> bool:
    """Whether the name has only characters that Kafka uses."""
    return _PLAIN.fullmatch(name) is not None


def segment_name(base_offset: int, suffix: str) -> str:
    """The name of a segment's file."""
    return f"{base_offset:0{_DIGITS}}{suffix}"


def segment_file(name: str) -> tuple[int, str] | None:
    """Base offset and suffix of a segment's file (LogFileUtils.filenamePrefixFromOffset)."""
    digits = name[:_DIGITS]
    if name[_DIGITS : _DIGITS + 1] != "." or not (digits.isascii() and digits.isdigit()):
        return None
    base_offset = int(digits)
    return (base_offset, name[_DIGITS:]) if base_offset <= _LARGEST_OFFSET else None


# Reads the value of `--log-dirs` as the broker reads its `log.dirs`.

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def parse_log_dirs(text: str, *, here: str | None = None) -> tuple[str, ...]:
    """Absolute paths out of `A,B`, as the broker spells them; doubled slashes fall together.

    `here` is what a relative path starts from; without it (the paths are another host's) a
    relative one is refused. Raises UsageError LOG_DIRS_INVALID.
    """
    found: list[str] = []
    for word in text.split(","):
        path = word.strip()
        if not path:
            raise _invalid(f"'{text}' names an empty path")
        if not path.startswith("/"):
            if here is None:
                raise _invalid(f"'{path}' is not an absolute path")
            path = f"{here}/{path.removeprefix('./')}"
        path = re.sub("/+", "/", path).rstrip("/") or "/"
        if _CONTROL.search(path) or not is_unicode(path):
            raise _invalid(f"{path!r} holds a character that no log dir can have")
        if path in found:
            raise _invalid(f"'{path}' is named twice")
        found.append(path)
    return tuple(found)


def _invalid(reason: str) -> UsageError:
    return UsageError(
        f"--log-dirs: {reason}",
        "Write what the broker's log.dirs says: absolute paths with commas between them.",
        code="LOG_DIRS_INVALID",
    )
