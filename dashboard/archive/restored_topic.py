"""The topic that records are restored into: how a new one is made, and whether one fits.

A new topic keeps the old settings but for those that would change or remove what is restored:
records come back with their own old times, which retention would find expired within minutes.
"""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from dashboard.archive.manifest import ArchivedTopic
from dashboard.cluster.live import LiveCluster
from dashboard.core import locks
from dashboard.core.canonical import Count, Moment, Text, canonical, parse_json, read, written
from dashboard.core.errors import ClusterError, RefusedError
from dashboard.domain.model import ConfigEntry, TopicPartition, TopicState
from dashboard.store.local_files import LocalFiles
from dashboard.store.snapshot_files import write_atomically

_TICK_SECONDS = 0.2
_SERVERS = "BROKER:9092"  # for lines to copy
_LONGEST_STEM = 180
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A record may have lain in a small compressed batch, and is larger than that by itself.
_LARGE = 64 << 20
_RETENTION = ("retention.ms", "retention.bytes")
_KEEPS_ALL = "what is restored is as old as it was: Kafka would delete it again"
# What a new topic has instead, whatever the old one had, and why.
_INSTEAD = {
    "message.timestamp.type": ("CreateTime", "the leader would put its own time on each record"),
    "cleanup.policy": ("delete", "the log cleaner would take records while they are restored"),
    "retention.ms": ("-1", _KEEPS_ALL),
    "retention.bytes": ("-1", _KEEPS_ALL),
}
# What it does not get: of one cluster's disks and brokers, or refused for old times.
_NOT_SET = {
    "message.timestamp.difference.max.ms": "old times would be refused",
    "message.timestamp.before.max.ms": "old times would be refused",
    "message.timestamp.after.max.ms": "times that lie ahead would be refused",
    "message.format.version": "brokers from 4.0 on do not know it",
    "message.downconversion.enable": "brokers from 4.0 on do not know it",
    "remote.storage.enable": "remote storage is the cluster's",
    "remote.log.copy.disable": "remote storage is the cluster's",
    "remote.log.delete.on.disable": "remote storage is the cluster's",
    "local.retention.ms": "remote storage is the cluster's",
    "local.retention.bytes": "remote storage is the cluster's",
    "leader.replication.throttled.replicas": "it names brokers of the old topic",
    "follower.replication.throttled.replicas": "it names brokers of the old topic",
}
_VENDORS = ("confluent.", "redpanda.")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting that is another than the old topic's: None where it is not set."""

    name: str
    was: str | None
    now: str | None
    why: str


@dataclass(frozen=True, slots=True)
class NewTopic:
    """How the topic is made, and what of the old one it does not have."""

    topic: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]
    changed: tuple[Setting, ...]

    @property
    def by_hand(self) -> str:
        """The line that makes it without the old settings, where brokers take one of these no more:
        what keeps all that is restored.
        """
        words = ["kafka-topics.sh", "--bootstrap-server", _SERVERS, "--create", "--topic",
                 self.topic, "--partitions", str(self.partitions), "--replication-factor",
                 str(self.replication_factor)]  # fmt: skip
        for name in sorted({*_INSTEAD, "max.message.bytes"}):
            words += ["--config", f"{name}={self.config[name]}"]
        return shlex.join(words)

    def line(self, bootstrap_servers: str) -> str:
        """The line that gives it the old settings, once nobody needs it as it is."""
        back = [f"{one.name}={_listed(one.was)}" for one in self.changed
                if one.was is not None and one.name in self.config]  # fmt: skip
        away = [one.name for one in self.changed if one.was is None and one.now is not None]
        return _alter(self.topic, bootstrap_servers, back, away)


def _alter(topic: str, servers: str, add: Sequence[str], delete: Sequence[str] = ()) -> str:
    words = ["kafka-configs.sh", "--bootstrap-server", servers, "--alter", "--entity-type",
             "topics", "--entity-name", topic]  # fmt: skip
    words += ["--add-config", ",".join(add)] if add else []
    words += ["--delete-config", ",".join(delete)] if delete else []
    return shlex.join(words)


def _listed(value: str) -> str:
    """A value as kafka-configs takes it: one with a comma stands in brackets."""
    return f"[{value}]" if "," in value else value


def new_topic(name: str, old: ArchivedTopic, brokers: int) -> NewTopic:
    """The new topic for records of the old one, on a cluster of so many brokers."""
    config: dict[str, str] = {}
    changed = []
    for key, was in sorted(old.config.items()):
        why = _NOT_SET.get(key)
        if key.startswith(_VENDORS):
            why = "one vendor's brokers alone know it"
        if key in _INSTEAD or key == "max.message.bytes" or was is None:
            continue
        if why is not None:
            changed.append(Setting(key, was, None, why))
        else:
            config[key] = was
    for key, (value, why) in _INSTEAD.items():
        config[key] = value
        if old.config.get(key) != value:
            changed.append(Setting(key, old.config.get(key), value, why))
    most = old.config.get("max.message.bytes")
    if most is None or int(most) < _LARGE:
        why = "a record may be larger than the batch that it was packed in"
        changed.append(Setting("max.message.bytes", most, str(_LARGE), why))
    config["max.message.bytes"] = str(max(_LARGE, int(most or 0)))
    factor = min(old.replication_factor, brokers)
    least = config.get("min.insync.replicas")
    if least is not None and int(least) > factor:
        config["min.insync.replicas"] = str(factor)
        why = f"there are {factor} replicas"
        changed.append(Setting("min.insync.replicas", least, str(factor), why))
    in_order = tuple(sorted(changed, key=lambda one: one.name))
    return NewTopic(name, old.partitions, factor, config, in_order)


class Configs(Protocol):
    """What DescribeConfigs tells of topics."""

    @property
    def entries(self) -> Sequence[ConfigEntry]: ...

    @property
    def errors(self) -> Mapping[str, str]: ...


def check_existing(state: TopicState, old: ArchivedTopic, configs: Configs) -> None:
    """Refuse an existing topic that would not keep records as they were, or keep none for long.

    Raises RefusedError TOPIC_UNFIT with every reason, and the line that keeps all of it.
    """
    told = {entry.key: entry.value for entry in configs.entries if entry.name == state.topic}
    reasons = []
    if state.is_internal:
        reasons.append("it is Kafka's own")
    if len(state.partitions) != old.partitions:
        reasons.append(
            f"it has {len(state.partitions)} partitions, {old.topic} had {old.partitions}: keys "
            "would lie in other ones"
        )
    if not told:
        error = configs.errors.get(f"topic {state.topic}", "they are missing")
        reasons.append(f"its settings could not be read ({error})")
    elif told.get("message.timestamp.type") != "CreateTime":
        reasons.append("message.timestamp.type is LogAppendTime: times would be lost")
    if "compact" in (told.get("cleanup.policy") or ""):
        reasons.append("it is compacted: records would go while they are compared")
    next_step = "Restore into a new topic, or change what is named."
    kept = {name: told.get(name) for name in _RETENTION}
    if told and set(kept.values()) != {"-1"}:
        # By age Kafka takes what is restored; by size what else lies there, read or not.
        values = " and ".join(f"{name} {value}" for name, value in kept.items())
        reasons.append(f"it has {values}, not -1: Kafka would delete records for those restored")
        line = _alter(state.topic, _SERVERS, [f"{name}=-1" for name in _RETENTION])
        next_step = f"Restore into a new topic, or change what is named. To keep all: {line}"
    if reasons:
        raise RefusedError(
            f"records cannot be restored into topic {state.topic}: {'; '.join(reasons)}",
            next_step,
            code="TOPIC_UNFIT",
        )


# Where its partitions end, and where records of a time begin.


def settled_ends(
    live: LiveCluster, topic: str, numbers: Iterable[int], patience_seconds: float
) -> dict[int, tuple[int, int]]:
    """Log start and log end of each partition, once the high watermark is the leader's end.

    Behind what a killed producer sent, it is not: going on from there would write twice. Raises
    ClusterError where that takes longer.
    """
    keys = [TopicPartition(topic, number) for number in numbers]
    until = time.monotonic() + patience_seconds
    while True:
        states = live.topics([topic])
        leaders = {p.partition: p.leader_id for p in states[topic].partitions}
        logs = {
            one.partition: one.log_end_offset
            for one in live.replica_offsets(keys, topics=states)
            if one.broker_id == leaders.get(one.partition)
        }
        found = {
            key.partition: (one.log_start_offset, one.high_watermark)
            for key, one in live.offsets(keys, states).items()
            if one.log_start_offset is not None
            and one.high_watermark is not None
            and one.high_watermark == logs.get(key.partition)
        }
        late = sorted({key.partition for key in keys} - found.keys())
        if not late:
            return found
        if time.monotonic() > until:
            raise ClusterError(
                f"where {topic}-{late[0]} ends is not settled: its leader does not answer, or "
                "replicas in sync lag behind it",
                "Wait until they are level, then give the same command again.",
                retriable=True,
            )
        time.sleep(_TICK_SECONDS)


def since(
    live: LiveCluster, key: TopicPartition, timestamp_ms: int, span: tuple[int, int]
) -> tuple[int, int]:
    """The part of a log's span in which a record of this time can lie: all of it where the record
    bears none, or the leader does not say.
    """
    start, end = span
    try:
        at = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:  # a producer may write anything
        return span
    if timestamp_ms <= 0 or start == end:
        return span
    found = live.offsets_at([key], at)[key]
    if found.error is not None:
        return span
    return (end if found.offset is None else min(max(start, found.offset), end)), end


# What this machine knows of a restore that it began: which topic is its own.


@dataclass(frozen=True, slots=True)
class Begun:
    """A restore into a topic. `topic_id` None: it was about to be made. `bases`: where each
    partition of an existing topic ended before; none of a topic that was made for it.
    """

    cluster_id: Text  # of the archive
    run_id: Text
    topic: Text
    to_topic: Text
    began_at: Moment
    topic_id: str | None = None
    bases: Mapping[str, Count] = field(default_factory=dict)
    done: bool = False

    @property
    def existing(self) -> bool:
        return bool(self.bases)

    def same_source(self, other: Begun) -> bool:
        """Whether both restore the same records."""
        return (self.cluster_id, self.run_id, self.topic) == (
            other.cluster_id, other.run_id, other.topic,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Notes:
    """The restores into one cluster that were begun here, a small file for each topic."""

    folder: Path

    def of(self, to_topic: str) -> Begun | None:
        """The newest one; None: none was begun here, or its file is not readable."""
        try:
            return read(parse_json(self._file(to_topic).read_bytes()), Begun)
        except (OSError, ValueError):
            return None

    def keep(self, begun: Begun) -> Begun:
        """Write it down, before anything is done by it. Raises StoreError STORE_UNWRITABLE."""
        body = canonical(written(begun)).encode()
        write_atomically(LocalFiles(), str(self._file(begun.to_topic)), body)
        return begun

    def drop(self, to_topic: str) -> None:
        """Forget it: nothing was begun after all."""
        self._file(to_topic).unlink(missing_ok=True)

    @contextmanager
    def alone(self, to_topic: str) -> Iterator[None]:
        """One restore into a topic at a time. Raises RefusedError RESTORE_BUSY."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{_stem(to_topic)}.lock").open("a+") as file:
            if not locks.take(file.fileno()):
                raise RefusedError(
                    f"another process restores into topic {to_topic}",
                    "Wait until it is done, or end it: the same command goes on.",
                    code="RESTORE_BUSY",
                )
            yield

    def offsets_file(self, to_topic: str) -> Path:
        """Where the map of old and new offsets lies unless somebody names another place."""
        return self.folder / f"{_stem(to_topic)}.parquet"

    def _file(self, to_topic: str) -> Path:
        return self.folder / f"{_stem(to_topic)}.json"


def _stem(topic: str) -> str:
    """A file's name: a topic's may be 249 characters long, and no file's longer than 255."""
    if len(topic) <= _LONGEST_STEM:
        return topic
    return f"{topic[:_LONGEST_STEM]}-{hashlib.sha256(topic.encode()).hexdigest()[:16]}"
