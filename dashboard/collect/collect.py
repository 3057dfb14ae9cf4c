"""Takes one snapshot: asks every broker side by side, writes all tables, commits, prunes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dashboard.cluster.configs import ConfigsAnswer
from dashboard.cluster.live import LiveCluster
from dashboard.core.clock import format_time
from dashboard.core.errors import (
    ClusterError,
    LowwaterError,
    OtherClusterError,
    StoreError,
    without_frames,
)
from dashboard.domain.columns import Names, Sizes, place
from dashboard.domain.model import Broker, GroupListing
from dashboard.history.epoch_ends import ASKED_OF
from dashboard.history.pruning import Pruned, prune_snapshots
from dashboard.settings.sections import SnapshotSettings
from dashboard.store import attempts, own_reads
from dashboard.store.clocks import wrong_clock
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

if TYPE_CHECKING:  # few clusters have metrics to read, and each command would import them
    from dashboard.broker_metrics.sources import Sources
    from dashboard.collect.tables import Answers
    from dashboard.inventory.loading import Inventory

_RETENTION = "offsets.retention.minutes"
_UNREACHED = ("BROKER_UNREACHABLE", "ANSWER_LOST")


@dataclass(frozen=True, slots=True)
class Collected:
    """One committed snapshot: table -> rows, every broker and whether it answered, seconds.

    `removed` are older snapshots that are not kept any more.
    """

    snapshot_id: str
    taken_at: datetime
    tables: Mapping[str, int]
    brokers: tuple[Mapping[str, Any], ...]
    seconds: float
    groups_incomplete: tuple[str, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()
    metrics: tuple[Mapping[str, Any], ...] = ()
    inventories: tuple[Mapping[str, Any], ...] = ()
    removed: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The contract's object of `collect --json`."""
        return {
            "snapshot_id": self.snapshot_id,
            "taken_at": format_time(self.taken_at),
            "tables": dict(self.tables),
            "brokers": [dict(broker) for broker in self.brokers],
            "seconds": round(self.seconds, 3),
            "groups_incomplete": list(self.groups_incomplete),
            "errors": [dict(error) for error in self.errors],
            "metrics": [dict(broker) for broker in self.metrics],
            "inventories": [dict(inventory) for inventory in self.inventories],
            "removed": list(self.removed),
        }


@dataclass(slots=True)
class _Reading:
    """What was read so far, what failed (`part, object, error`) and how long each part took."""

    errors: list[dict[str, Any]] = field(default_factory=list)
    durations: dict[str, float] = field(default_factory=dict)

    def fail(self, part: str, subject: str, error: str) -> None:
        self.errors.append({"part": part, "object": subject, "error": error})


def collect(
    live: LiveCluster,
    cluster: ClusterStore,
    *,
    now: Callable[[], datetime],
    progress: Callable[[str], None],
    metrics: Sources | None = None,
    inventories: Sequence[Inventory] = (),
    keep: Callable[[], SnapshotSettings] = SnapshotSettings,
    every: timedelta | None = None,
) -> Collected:
    """One snapshot of the cluster into its store; then old ones go, as `keep` says by then.

    `metrics` says where brokers' own counts are read, `inventories` are brokers' disks. A broker
    that is dead, slow or refuses costs its own rows and is named in the manifest. Raises
    ClusterError when nothing could be read, InventoryError for another cluster's inventory,
    StoreError when it cannot be written; however it ends, readers see a whole snapshot or none,
    and a trace of the attempt. `every` is the interval of a watch that goes on.
    """
    with attempts.attempt(cluster, now, progress, every) as trying:
        return _collect(
            live, cluster, trying, now=now, progress=progress, metrics=metrics,
            inventories=inventories, keep=keep,
        )  # fmt: skip


def _collect(
    live: LiveCluster,
    cluster: ClusterStore,
    trying: attempts.Trying,
    *,
    now: Callable[[], datetime],
    progress: Callable[[str], None],
    metrics: Sources | None,
    inventories: Sequence[Inventory],
    keep: Callable[[], SnapshotSettings],
) -> Collected:
    taken_at = now()
    begun = time.monotonic()
    reading = _Reading()
    _same_cluster(live, cluster)
    if inventories:
        from dashboard.inventory.loading import check_cluster

        check_cluster(inventories, cluster.cluster_id)
    answers = _read(live, cluster, reading, progress=progress, metrics=metrics, now=now)
    from dashboard.collect.epochs import doubtful_topics
    from dashboard.collect.tables import build_tables, to_arrow
    from dashboard.inventory.loading import shortfalls, tables_of
    from dashboard.store.buckets import count_for

    ends_read_at = now()
    trying.met(answers.brokers)
    doubtful = doubtful_topics(live, answers.topics, answers.sizes, inventories)
    for subject, error in shortfalls(inventories, answers.sizes.log_dirs):
        reading.fail("inventory", subject, error)
    seen = tuple(inventory.to_json(taken_at) for inventory in inventories)
    counted = _metrics_json(answers)
    brokers = tuple(_broker_json(broker) for broker in answers.brokers)
    details = {
        "cluster_id": cluster.cluster_id,
        "cluster_name": cluster.name,
        "brokers": brokers,
        "groups_incomplete": list(answers.groups.incomplete),
        "doubtful_topics": doubtful,
        "clock_ahead_seconds": answers.clock_ahead_seconds,
        "clock_error": next((e["error"] for e in reading.errors if e["part"] == "clock"), None),
        "ends_read_at": format_time(ends_read_at),
        ASKED_OF: answers.ends_asked_of,
        "offsets_retention_minutes": _offsets_retention(answers),
        "errors": reading.errors,
        "metrics": counted,
        "inventories": seen,
        "durations": {part: round(took, 3) for part, took in sorted(reading.durations.items())},
    }
    progress("writing the snapshot")
    tables = build_tables(answers)
    segments = sum(inventory.tables["segments"].num_rows for inventory in inventories)
    buckets = count_for(tables["replicas"].num_rows, segments)
    writer = cluster.begin("snapshots", taken_at, buckets)
    try:
        found = {n: to_arrow(n, table, writer.id, taken_at) for n, table in tables.items()}
        for name, rows in (found | tables_of(inventories, writer.id, taken_at)).items():
            writer.split(name, rows, found["topics"])
        _refuse_overtaken(cluster, writer.id)
        manifest = writer.commit(time.monotonic() - begun, details)
    except BaseException:  # Ctrl-C too: nothing half-written is left to look at
        with suppress(OSError):
            writer.abandon()
        raise
    pruned = _prune(cluster, keep, manifest, now(), progress)
    return Collected(
        manifest.id,
        taken_at,
        manifest.tables,
        brokers,
        manifest.seconds,
        answers.groups.incomplete,
        (*reading.errors, *({"part": "prune", **e} for e in pruned.errors)),
        counted,
        seen,
        pruned.removed,
    )


def _refuse_overtaken(cluster: ClusterStore, snapshot_id: str) -> None:
    """Analyses go on from the last one's snapshot: one that came to stand before it is never read,
    and a group that it alone saw would be remembered by nobody.
    """
    newest = cluster.latest("snapshots")
    if newest is not None and newest > snapshot_id:
        raise StoreError(
            f"snapshot {newest} was finished while {snapshot_id} was written",
            "Collect again: two collectors share this data folder, where one is enough.",
            code="SNAPSHOT_OVERTAKEN",
        )


def _same_cluster(live: LiveCluster, cluster: ClusterStore) -> None:
    found = live.cluster_id()
    if found != cluster.cluster_id:
        raise OtherClusterError(
            found,
            f"the address belongs to cluster {found} now, not to {cluster.cluster_id}",
            "Check the bootstrap address; start again to collect the other cluster.",
        )


def _read(
    live: LiveCluster,
    cluster: ClusterStore,
    reading: _Reading,
    *,
    progress: Callable[[str], None],
    metrics: Sources | None,
    now: Callable[[], datetime],
) -> Answers:
    begun = time.monotonic()
    listed = live.topics(None)
    topics = {name: topic for name, topic in listed.items() if not topic.error}
    for name, topic in listed.items():
        if topic.error:
            reading.fail("topics", f"topic {name}", topic.error)
    reading.durations["topics"] = time.monotonic() - begun
    placement = place(topics)
    assigned = placement.brokers()
    progress(f"{len(topics)} topics, {len(placement.partition)} partitions")
    parts: dict[str, Callable[[], Any]] = {
        "brokers": lambda: live.brokers(assigned),
        "clock": lambda: _ahead(live, now),
        "offsets": lambda: live.leader_offsets(placement),
        "log_dirs": live.sizes,
        "replicas": lambda: live.own_offsets(placement),
        "groups": lambda: live.groups(topics),
        "configs": lambda: live.configs_answer(topics, assigned),
        "reassignments": live.reassignments,
    }
    if metrics is not None:
        parts["metrics"] = metrics.read
    # A log's end is read after its size: what was counted in bytes lies below it.
    found = _side_by_side(parts, reading, progress, after={"replicas": "log_dirs"})
    from dashboard.collect.epochs import Asked, epoch_ends, later_ends
    from dashboard.collect.tables import Answers

    asked = Asked((), Counter(), None)
    if found["offsets"] is not None and found["groups"] is not None:
        found["offsets"] = later_ends(live, topics, placement, found["offsets"], found["groups"])
        asked = epoch_ends(
            live, cluster, topics, placement, offsets=found["offsets"], groups=found["groups"]
        )
        for error, count in sorted(asked.errors.items()):
            reading.fail("epochs", f"{count} partitions", error)
    brokers = _mark_unreached(found["brokers"] or (), found["log_dirs"])
    configs: ConfigsAnswer = found["configs"] or ConfigsAnswer((), {})
    answers = Answers(
        brokers=brokers,
        topics=topics,
        placement=placement,
        offsets=found["offsets"],
        replicas=found["replicas"],
        sizes=found["log_dirs"] or Sizes((), {}, {}),
        groups=found["groups"] or _no_groups(reading),
        configs=configs.entries,
        reassignments=found["reassignments"] or (),
        metrics=found.get("metrics"),
        epoch_ends=asked.cut,
        ends_asked_of=asked.of,
        clock_ahead_seconds=found["clock"],
    )
    _note_errors(answers, configs, reading)
    return answers


def _ahead(live: LiveCluster, now: Callable[[], datetime]) -> float | None:
    """By how many seconds this host's clock is ahead of the cluster's; None: it tells no time.

    Raises ClusterError where it does, and could not be read.
    """
    at = live.controller_time()
    return None if at is None else round((now() - at).total_seconds(), 3)


def _side_by_side(
    parts: Mapping[str, Callable[[], Any]],
    reading: _Reading,
    progress: Callable[[str], None],
    after: Mapping[str, str],
) -> dict[str, Any]:
    """Part -> its answer, or None with the error noted. `after`: parts that wait for one that is
    named before them.
    """
    pool = ThreadPoolExecutor(len(parts), thread_name_prefix="collect")
    try:
        futures: dict[str, Future[Any]] = {}
        for name, call in parts.items():
            first = [futures[after[name]]] if name in after else []
            futures[name] = pool.submit(_timed, name, call, reading, first)
        _load()
        return {name: _answer(name, f, reading, progress) for name, f in futures.items()}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _load() -> None:
    """Import while brokers answer what makes tables of it: a tenth of a second of a first collect,
    which is why nothing here imports it at the top.
    """
    for module in ("collect.epochs", "collect.tables", "inventory.loading", "store.buckets"):
        import_module(f"dashboard.{module}")


def _timed(
    name: str, call: Callable[[], Any], reading: _Reading, after: Sequence[Future[Any]]
) -> Any:
    wait(after)
    begun = time.monotonic()
    try:
        return call()
    finally:
        reading.durations[name] = time.monotonic() - begun


def _answer(
    name: str, future: Future[Any], reading: _Reading, progress: Callable[[str], None]
) -> Any:
    try:
        answer = future.result()
    except ClusterError as error:
        reading.fail(name, "cluster", without_frames(error).message)
        progress(f"{name}: {error.message}")
        return None
    progress(f"{name}: read in {reading.durations[name]:.2f} s")
    return answer


def _no_groups(reading: _Reading) -> GroupListing:
    reasons = [e["error"] for e in reading.errors if e["part"] == "groups"]
    return GroupListing((), (), tuple(f"groups could not be listed: {r}" for r in reasons))


def _mark_unreached(brokers: Sequence[Broker], sizes: Sizes | None) -> tuple[Broker, ...]:
    """A broker that fell silent after its greeting is unreachable in this snapshot as well."""
    silent = {
        broker: error
        for broker, error in (sizes.errors if sizes else {}).items()
        if error in _UNREACHED
    }
    return tuple(
        replace(b, reachable=False, error="it stopped answering while it was being read")
        if b.reachable and b.broker_id in silent
        else b
        for b in brokers
    )


def _note_errors(answers: Answers, configs: ConfigsAnswer, reading: _Reading) -> None:
    for broker_id, error in sorted(answers.sizes.errors.items()):
        reading.fail("log_dirs", f"broker {broker_id}", error)
    for log_dir in answers.sizes.log_dirs:
        if log_dir.error:
            reading.fail("log_dirs", f"broker {log_dir.broker_id} {log_dir.log_dir}", log_dir.error)
    unread = answers.metrics.errors if answers.metrics else {}
    for broker_id, why in sorted(unread.items()):
        if why:
            reading.fail("metrics", f"broker {broker_id}", why)
    for subject, error in sorted(configs.errors.items()):
        reading.fail("configs", subject, error)
    if answers.offsets is not None:
        for error, count in sorted(_counted(answers.offsets.errors).items()):
            reading.fail("offsets", f"{count} partitions", error)
    if answers.replicas is not None:
        for broker_id in answers.placement.brokers():
            mine = answers.replicas.errors[answers.placement.at_broker(broker_id)]
            for error, count in sorted(_counted(mine).items()):
                reading.fail("replicas", f"broker {broker_id}, {count} replicas", error)


def _offsets_retention(answers: Answers) -> int | None:
    """After how many minutes the first of the brokers forgets a group that has ended."""
    told = (e.value for e in answers.configs if e.scope == "broker" and e.key == _RETENTION)
    return min((int(value) for value in told if value and value.isdecimal()), default=None)


def _counted(errors: Names) -> Counter[str]:
    return Counter(error for error in errors.tolist() if error)


def _broker_json(broker: Broker) -> dict[str, object]:
    return {
        "broker_id": broker.broker_id,
        "reachable": broker.reachable,
        "error": broker.error,
    }


def _metrics_json(answers: Answers) -> tuple[dict[str, object], ...]:
    """`{broker_id, answered, error, missing}` of every broker whose metrics were asked for."""
    if answers.metrics is None:
        return ()
    return tuple(
        {
            "broker_id": broker_id,
            "answered": error is None,
            "error": error,
            "missing": list(answers.metrics.missing.get(broker_id, ())),
        }
        for broker_id, error in sorted(answers.metrics.errors.items())
    )


def _prune(
    cluster: ClusterStore,
    keep: Callable[[], SnapshotSettings],
    snapshot: Manifest,
    now: datetime,
    progress: Callable[[str], None],
) -> Pruned:
    """By a clock that this very snapshot knows to be wrong nothing is old, and by settings that
    cannot be read nobody knows what is: all stays.
    """
    try:
        if clock := wrong_clock(snapshot):
            raise StoreError(f"the newest was taken {clock}", "Set the clock right.")
        pruned = prune_snapshots(cluster, keep(), now)
        own_reads.forget(cluster)
        return pruned
    except (OSError, LowwaterError) as error:  # the new snapshot stands: thinning can wait
        progress(f"old snapshots could not be thinned out: {error}")
        return Pruned(errors=({"object": "snapshots", "error": str(error)},))
