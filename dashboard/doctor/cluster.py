"""What a cluster lets us see and do: brokers, API versions and rights, each with its cost.

Apart from `doctor`, which looks at this machine and asks nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from dashboard.core.errors import ClusterError
from dashboard.doctor.doctor import Check
from dashboard.domain import rights
from dashboard.domain.model import (
    LEADER_ONLY_SINCE,
    Broker,
    ConfigEntry,
    GroupListing,
    LogDirsAnswer,
    Reassignment,
    ReplicaOffsets,
    TopicPartition,
    TopicState,
)

# API name -> (lowest version that serves, what is lost without it).
_NEEDED = {
    "ListOffsets": (1, "no offset can be read, so nothing can be planned"),
    "OffsetFetch": (2, "groups' committed offsets cannot be read, so nothing is safe to purge"),
    "ListGroups": (0, "groups cannot be listed, so every purge is refused"),
    "DeleteRecords": (0, "nothing can be purged on this cluster"),
    "OffsetForLeaderEpoch": (0, "a reused offset after an election cannot be told apart"),
    "DescribeLogDirs": (0, "records are shown, bytes are not measurable"),
}


class Live(Protocol):
    """What the checks ask of `dashboard.cluster.live.LiveCluster`."""

    def cluster_id(self) -> str: ...
    def brokers(self) -> tuple[Broker, ...]: ...
    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]: ...
    def log_dirs(self) -> LogDirsAnswer: ...
    def reassignments(self) -> tuple[Reassignment, ...]: ...
    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing: ...
    def configs(
        self, topics: Iterable[str], brokers: Iterable[int] = ()
    ) -> tuple[ConfigEntry, ...]: ...
    def replica_offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[ReplicaOffsets, ...]: ...


def cluster_checks(live: Live) -> list[Check]:
    """One check per thing, in the order that an operator would ask. Never raises ClusterError."""
    brokers = live.brokers()
    topics = live.topics(None)
    return [
        Check("cluster-id", True, live.cluster_id() or "the cluster tells none"),
        _brokers(brokers),
        *_versions(brokers),
        _leader_only(brokers),
        _guarded("topics", lambda: _topics(topics)),
        _guarded("configs", lambda: _configs(live, topics)),
        _guarded("log-dirs", lambda: _log_dirs(live.log_dirs())),
        _guarded("replica-offsets", lambda: _replica_offsets(live, topics)),
        _guarded("reassignments", lambda: _reassignments(live)),
        _guarded("groups", lambda: _groups(live.groups((), with_offsets=False))),
    ]


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """The check, or what kept it from being made."""
    try:
        return check()
    except ClusterError as error:
        return Check(name, False, error.message, "not known while this fails", error.next_step)


def _brokers(brokers: tuple[Broker, ...]) -> Check:
    silent = [b for b in brokers if not b.reachable]
    detail = f"{len(brokers) - len(silent)} of {len(brokers)} answered"
    if not silent:
        return Check("brokers", True, detail)
    named = "; ".join(f"broker {b.broker_id} ({b.host}:{b.port}): {b.error}" for b in silent)
    return Check(
        "brokers",
        False,
        f"{detail}; {named}",
        "their replicas' sizes and offsets are missing from snapshots",
        "Start them, or open the way from this machine to their advertised listeners.",
    )


def _versions(brokers: tuple[Broker, ...]) -> list[Check]:
    """The lowest version over the brokers that answered counts: any of them may lead."""
    checks = []
    lowest = _lowest(brokers)
    for api, (needed, costs) in _NEEDED.items():
        found = lowest.get(api)
        name = f"api-{api}"
        if found is None or found < needed:
            have = "not offered" if found is None else f"version {found}, {needed} is needed"
            step = "Ask who runs the service whether it can be switched on; or upgrade the brokers."
            checks.append(Check(name, False, have, costs, step))
        else:
            checks.append(Check(name, True, f"up to version {found}"))
    return checks


def _leader_only(brokers: tuple[Broker, ...]) -> Check:
    version = _lowest(brokers).get("DeleteRecords", -1)
    if version >= LEADER_ONLY_SINCE:
        return Check("leader-only", True, f"DeleteRecords v{version}: native leader-only purges")
    # No failure: every released broker is like this.
    detail = (
        f"DeleteRecords v{version}: no native leader-only; "
        "--mode leader-only-verified does it with a read-back"
    )
    return Check("leader-only", True, detail)


def _lowest(brokers: tuple[Broker, ...]) -> Mapping[str, int]:
    reachable = [b for b in brokers if b.reachable]
    common = set.intersection(*(set(b.api_versions) for b in reachable)) if reachable else set()
    return {api: min(b.api_versions[api] for b in reachable) for api in sorted(common)}


def _topics(topics: Mapping[str, TopicState]) -> Check:
    count = sum(len(t.partitions) for t in topics.values())
    hidden = sorted(t.topic for t in topics.values() if t.error)
    if hidden:
        return Check(
            "topics",
            False,
            f"{len(hidden)} topics cannot be described, among them {hidden[0]}",
            "they are missing from every screen, and so are their bytes",
            rights.command(rights.DESCRIBE_TOPIC),
        )
    if not topics:
        return Check(
            "topics",
            False,
            "no topic is visible",
            "a topic without DESCRIBE does not show at all",
            rights.command(rights.DESCRIBE_TOPIC),
        )
    return Check("topics", True, f"{len(topics)} topics, {count} partitions are visible")


def _configs(live: Live, topics: Mapping[str, TopicState]) -> Check:
    visible = sorted(t.topic for t in topics.values() if not t.error and not t.is_internal)
    if not visible:
        return Check("configs", None, "no topic to ask about")
    named = {entry.name for entry in live.configs(visible)}
    refused = [topic for topic in visible if topic not in named]
    if not refused:
        return Check("configs", True, f"readable on {len(visible)} topics")
    return Check(
        "configs",
        False,
        f"not readable on {len(refused)} of {len(visible)} topics, among them {refused[0]}",
        "their cleanup.policy is unknown, so they cannot be purged",
        rights.command(rights.CONFIGS_TOPIC),
    )


def _log_dirs(answer: LogDirsAnswer) -> Check:
    if answer.errors:
        named = ", ".join(f"broker {b}: {e}" for b, e in sorted(answer.errors.items()))
        return Check(
            "log-dirs",
            False,
            f"DescribeLogDirs: {named}",
            "records are shown, bytes are not measurable on these brokers",
            rights.command(rights.DESCRIBE_CLUSTER),
        )
    broken = [d for d in answer.log_dirs if d.error]
    if broken:
        named = ", ".join(f"broker {d.broker_id} {d.log_dir}: {d.error}" for d in broken)
        return Check("log-dirs", False, named, "that disk's bytes are unknown", "Check that disk.")
    if any(d.total_bytes is None for d in answer.log_dirs):
        return Check(
            "log-dirs",
            False,
            "replica sizes are told, the disks' sizes are not (before DescribeLogDirs v4)",
            "free space and days to full are unknown",
            "Upgrade the brokers to 3.3 or newer.",
        )
    return Check(
        "log-dirs", True, f"{len(answer.replicas)} replicas in {len(answer.log_dirs)} log dirs"
    )


def _replica_offsets(live: Live, topics: Mapping[str, TopicState]) -> Check:
    """Followers answer ListOffsets with replica id -2; one partition shows whether they do."""
    probe = next(
        (
            TopicPartition(p.topic, p.partition)
            for t in topics.values()
            for p in t.partitions
            if not p.error and not t.is_internal
        ),
        None,
    )
    if probe is None:
        return Check("replica-offsets", None, "no partition to ask about")
    answers = live.replica_offsets([probe])
    failed = [a for a in answers if a.error]
    where = f"{probe.topic}-{probe.partition}"
    if not failed:
        return Check("replica-offsets", True, f"all {len(answers)} replicas of {where} answered")
    named = ", ".join(f"broker {a.broker_id}: {a.error}" for a in failed)
    return Check(
        "replica-offsets",
        False,
        f"{where}: {named}",
        "who holds a low watermark back cannot be named, purges cannot be verified by replica",
        rights.command(rights.DESCRIBE_TOPIC),
    )


def _reassignments(live: Live) -> Check:
    count = len(live.reassignments())
    return Check("reassignments", True, f"{count} partitions are being moved")


def _groups(listing: GroupListing) -> Check:
    if not listing.incomplete:
        return Check("groups", True, f"{len(listing.groups)} groups, the list is complete")
    return Check(
        "groups",
        False,
        "; ".join(listing.incomplete),
        "an incomplete list hides readers, so every purge is refused",
        f"{rights.command(rights.DESCRIBE_CLUSTER)} (and {rights.command(rights.DESCRIBE_GROUP)}); "
        "start brokers that are down.",
    )
