"""What the live cluster says of one folder, asked right before anything happens to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from dashboard.core.errors import ClusterError, RefusedError
from dashboard.domain.model import (
    NO_TOPIC,
    ConfigEntry,
    LogDirsAnswer,
    PartitionOffsets,
    PartitionState,
    Reassignment,
    ReplicaSize,
    TopicPartition,
    TopicState,
)
from dashboard.inventory.names import Folder
from dashboard.orphans.sweep.places import LogDir
from dashboard.orphans.sweep.report import Refusal
from dashboard.safety.last_copy import Living, Records, kept
from dashboard.store import clocks


class Cluster(Protocol):
    """The questions of `cluster.live.LiveCluster` that a sweep asks."""

    def cluster_id(self) -> str: ...
    def alive_brokers(self) -> tuple[int, ...]: ...
    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]: ...
    def topic_of_id(self, topic_id: str) -> TopicState: ...
    def reassignments(self) -> tuple[Reassignment, ...]: ...
    def controller_time(self) -> datetime | None: ...
    def configs(self, topics: Iterable[str]) -> tuple[ConfigEntry, ...]: ...
    def offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionOffsets]: ...
    def log_dirs(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        brokers: Iterable[int] | None = None,
    ) -> LogDirsAnswer: ...


def prove_cluster(live: Cluster, expected: str | None) -> str:
    """The id of the cluster reached, which is that of the verdicts, if there are some.

    Raises RefusedError CLUSTER_MISMATCH.
    """
    reached = live.cluster_id()
    if expected is not None and expected != reached:
        raise RefusedError(
            f"the verdicts are of cluster {expected}, the cluster reached is {reached}",
            "Correct --bootstrap-server, or take that cluster's verdicts.",
            code="CLUSTER_MISMATCH",
        )
    return reached


def broker_log_dirs(live: Cluster, broker_id: int) -> LogDirsAnswer:
    """All log dirs and replicas of one broker. Raises RefusedError LOG_DIRS_UNKNOWN."""
    answer = live.log_dirs(None, [broker_id])
    if answer.errors or not answer.log_dirs:
        reason = answer.errors.get(broker_id, "no answer")
        raise RefusedError(
            f"broker {broker_id} does not tell what it hosts: {reason}",
            "Grant DESCRIBE on the cluster, or wait until it answers; nothing is moved unseen.",
            code="LOG_DIRS_UNKNOWN",
        )
    return answer


def prove_log_dirs(answer: LogDirsAnswer, log_dirs: Sequence[LogDir]) -> None:
    """Each named log dir is one that the broker uses and reads. Raises RefusedError."""
    known = {found.log_dir: found.error for found in answer.log_dirs}
    for found in log_dirs:
        if found.path not in known or known[found.path]:
            raise RefusedError(
                f"{found.path} is no log dir that the broker uses "
                f"({known.get(found.path) or 'it names ' + ', '.join(sorted(known))})",
                "Write --log-dirs as the broker's log.dirs does.",
                code="LOG_DIR_UNKNOWN",
            )


def prove_all_named(answer: LogDirsAnswer, log_dirs: Sequence[LogDir]) -> None:
    """No log dir that the broker can read is left out: what a service may do in a day, or at once,
    is of the whole broker, not of each of two services. Raises RefusedError.
    """
    named = {found.path for found in log_dirs}
    left_out = sorted(d.log_dir for d in answer.log_dirs if not d.error and d.log_dir not in named)
    if left_out:
        raise RefusedError(
            f"the broker uses {', '.join(left_out)} too",
            "Name all of its log.dirs: a service's limits are of the whole broker. One that failed "
            "may be left out.",
            code="LOG_DIR_LEFT_OUT",
        )


class Judged(Protocol):
    """What was judged to be an orphan: a row of the verdicts, or what lies in quarantine."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def topic_id(self) -> str | None: ...
    @property
    def log_dir(self) -> str: ...


class LiveCheck:
    """Asks afresh for every folder. `broker_id` is the broker whose disk this is."""

    def __init__(self, live: Cluster, broker_id: int, cluster_id: str) -> None:
        self._live = live
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._tells_of_topics = False

    def may_go(
        self,
        row: Judged,
        folder: Folder,
        names: Callable[[], Iterable[str]],
        *,
        records: Records,
        now: datetime,
    ) -> bool:
        """Whether the cluster has its topic. Raises Refusal unless nothing wants this folder.

        `names` lists the partition folders of its log dir now: a replica that the broker hosts
        there must be explained by another folder. `records` are what the folder holds.
        """
        with _answered():
            lives = self._ask(row, lambda hosted: _refuse_hosted(row, folder, hosted, names))
            if lives is not None:
                self._refuse_last_copy(TopicPartition(lives, row.partition), records, now)
        return lives is not None

    def may_be_deleted(
        self,
        item: Judged,
        names: Callable[[], Iterable[str]],
        *,
        records: Records,
        now: datetime,
        lived: bool | None,
    ) -> None:
        """The same of a folder in quarantine, where no replica can be that folder itself.

        One that the broker hosts in its log dir, and that has no folder there, is the one that was
        taken from under it. `lived`: whether the cluster had its topic when it was moved.
        """
        with _answered():
            lives = self._ask(item, lambda hosted: _refuse_unexplained(item, hosted, names))
            if lives is not None and lived is False:
                raise Refusal("revived", "its topic was gone when it was moved, and is there again")
            if lives is not None:
                self._refuse_last_copy(TopicPartition(lives, item.partition), records, now)

    def _ask(self, row: Judged, judge: Callable[[Sequence[ReplicaSize]], None]) -> str | None:
        """The name of its topic where the cluster has that. Raises Refusal, ClusterError."""
        assert row.topic_id is not None
        self._same_cluster()
        lives = self._not_assigned(row.topic_id, row.partition, row.topic)
        self.partition_is_well(row.topic, row.partition)
        judge(self._hosted(row))
        return lives

    def tells_the_time(self, now: datetime) -> bool:
        """Whether this host's clock is proved to agree with the controller's; False: nobody tells.

        Raises Refusal `clock` where it is ahead or behind, `unknown` where that cannot be read.
        """
        with _answered():
            by = clocks.ahead(self._live, now)
        if by:
            raise Refusal(
                "clock",
                f"{clocks.in_words(by, now)}: how old it is, and how long it has lain here, is not "
                "known; set the clock right",
            )
        return by is not None

    def partition_is_well(self, topic: str, partition: int) -> None:
        """No partition of this name lacks a replica or a leader: this may be its last copy.

        Raises Refusal `under-replicated`, ClusterError.
        """
        found = self._partition(topic, partition)
        if found is None:
            return
        if found.leader_id is None or found.error:
            raise Refusal("under-replicated", f"{topic}-{partition} is offline: {found.error}")
        if found.under_replicated:
            raise Refusal("under-replicated", f"{topic}-{partition} is under-replicated")

    def hosts(self, topic: str, partition: int) -> bool:
        """Whether this broker is assigned the partition of this name, or is about to be."""
        found = self._partition(topic, partition)
        return (found is not None and self._broker_id in found.replicas) or any(
            (r.topic, r.partition) == (topic, partition) and self._broker_id in r.adding
            for r in self._live.reassignments()
        )

    def topic_id(self, topic: str) -> str | None:
        """The id of the topic of this name; None where there is none. Raises Refusal."""
        found = self._topic(topic)
        return None if found is None else found.topic_id

    def _same_cluster(self) -> None:
        if self._live.cluster_id() != self._cluster_id:
            raise Refusal("cluster", "another cluster answers at this address now")

    def _refuse_last_copy(self, key: TopicPartition, records: Records, now: datetime) -> None:
        """Raises Refusal `last-copy` unless that living partition had, or would not keep, these."""
        found = self._live.offsets([key]).get(key)
        told = {e.key: e.value for e in self._live.configs([key.topic]) if e.name == key.topic}
        offsets = (found.log_start_offset, found.high_watermark) if found else (None, None)
        why = kept(records, Living(*key, told, *offsets), now)
        if why is not None:
            raise Refusal("last-copy", why.reason)

    def _not_assigned(self, topic_id: str, partition: int, topic: str) -> str | None:
        """The name of the topic of this id; None: there is none. Raises Refusal `assigned`,
        `unknown`.
        """
        lives = None
        for state in self._of_id(topic_id, topic):
            if state.topic_id is None:
                raise Refusal("unknown", f"the cluster tells no topic id of {state.topic}")
            if state.topic_id != topic_id:
                continue
            lives = state.topic
            assigned = [p for p in state.partitions if p.partition == partition]
            if any(self._broker_id in p.replicas for p in assigned):
                raise Refusal("assigned", "the broker is assigned this very partition")
            if any(
                (r.topic, r.partition) == (state.topic, partition)
                and self._broker_id in (*r.adding, *r.removing)
                for r in self._live.reassignments()
            ):
                raise Refusal("assigned", "this partition is being reassigned just now")
        return lives

    def _of_id(self, topic_id: str, topic: str) -> list[TopicState]:
        """The topics of this name and of this id, as they are now.

        Both differ where Kafka cut the folder's name short, or its metadata is another folder's.
        The id itself is asked for: a list of all topics leaves out those that we may not describe.
        """
        self._tells_of_topics = self._tells_of_topics or bool(self._live.topics(None))
        if not self._tells_of_topics:
            raise Refusal("unknown", "the cluster tells of no topic at all")
        known = self._live.topic_of_id(topic_id)
        if known.error and known.error not in NO_TOPIC:
            raise Refusal(
                "unknown",
                f"there is a topic of id {topic_id} that cannot be read: {known.error}. Grant "
                "DESCRIBE on all topics",
            )
        names = {topic} if known.error else {topic, known.topic}
        found = [self._topic(name) for name in sorted(names)]
        return [state for state in found if state is not None]

    def _topic(self, topic: str) -> TopicState | None:
        found = self._live.topics([topic]).get(topic)
        if found is None or found.error in NO_TOPIC:
            return None
        if found.error:
            raise Refusal("unknown", f"topic {topic} cannot be read: {found.error}")
        return found

    def _partition(self, topic: str, partition: int) -> PartitionState | None:
        found = self._topic(topic)
        every = () if found is None else found.partitions
        return next((p for p in every if p.partition == partition), None)

    def _hosted(self, row: Judged) -> list[ReplicaSize]:
        """DescribeLogDirs lists live and future replicas by name, without their folder or id."""
        key = TopicPartition(row.topic, row.partition)
        answer = self._live.log_dirs([key], [self._broker_id])
        if answer.errors or not answer.log_dirs:
            raise Refusal("unknown", "the broker does not tell what it hosts just now")
        return [r for r in answer.replicas if (r.topic, r.partition) == key]


@contextmanager
def _answered() -> Iterator[None]:
    """Raises Refusal `unknown` where the cluster does not answer."""
    try:
        yield
    except ClusterError as error:
        raise Refusal("unknown", f"the cluster did not answer: {error.message}") from error


def _refuse_hosted(
    row: Judged,
    folder: Folder,
    hosted: Sequence[ReplicaSize],
    names: Callable[[], Iterable[str]],
) -> None:
    if folder.kind not in ("live", "future"):
        _refuse_unexplained(row, hosted, names)
    elif any(r.is_future == (folder.kind == "future") for r in hosted):
        raise Refusal("hosted", "the broker hosts this partition: it is live")


def _refuse_unexplained(
    row: Judged, hosted: Sequence[ReplicaSize], names: Callable[[], Iterable[str]]
) -> None:
    here = [r.is_future for r in hosted if r.log_dir == row.log_dir]
    if here and not _explained(TopicPartition(row.topic, row.partition), here, names()):
        raise Refusal("hosted", "the broker hosts this partition here, in no other folder")


def _explained(key: TopicPartition, futures: Sequence[bool], names: Iterable[str]) -> bool:
    """Whether each hosted replica of a log dir has a folder of its own there."""
    every = set(names)
    live = f"{key.topic}-{key.partition}"
    future = any(n.startswith(f"{live}.") and n.endswith("-future") for n in every)
    return all(future if is_future else live in every for is_future in futures)


def sizes(answer: LogDirsAnswer, log_dirs: Sequence[LogDir]) -> Mapping[str, int]:
    """Bytes that the broker hosts in each of these log dirs."""
    totals = {found.path: 0 for found in log_dirs}
    for replica in answer.replicas:
        if replica.log_dir in totals:
            totals[replica.log_dir] += replica.size_bytes
    return totals
