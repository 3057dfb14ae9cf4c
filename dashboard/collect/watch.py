"""The one loop: collects every N, survives outages, and has each snapshot analyzed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from dashboard.broker_metrics.sources import Sources
from dashboard.cluster.live import LiveCluster
from dashboard.collect.analysis_child import AnalysisChild, Emit, command
from dashboard.collect.collect import collect
from dashboard.core.errors import ClusterError, LowwaterError
from dashboard.inventory.loading import check_cluster, load_all, load_usable
from dashboard.settings.snapshots import SnapshotSettings
from dashboard.store import attempts
from dashboard.store.snapshots import ClusterStore, Store

_TEND_SECONDS = 0.5


def run(
    open_live: Callable[[], LiveCluster],
    store: Store,
    *,
    every: timedelta,
    now: Callable[[], datetime],
    emit: Emit,
    progress: Callable[[str], None] = lambda _: None,
    remember: Callable[[ClusterStore], None] = lambda _: None,
    analysis: Callable[[str, str], Sequence[str]] | None = command,
    rounds: int | None = None,
    metrics: Sources | None = None,
    inventories: Sequence[str] = (),
    keep: Callable[[], SnapshotSettings] = SnapshotSettings,
    each_round: Callable[[], None] = lambda: None,
) -> None:
    """Collect every `every` until Ctrl-C (KeyboardInterrupt passes through), or for `rounds`.

    `emit` gets one JSON-able event a time: `{"event": "snapshot", …}` as `collect --json` has it,
    `{"event": "analysis", …}`, `{"event": "analysis-ready", "seconds"}`, or `{"event": "error",
    "error": {code, message, next}}`; it is called by two threads, one at a time. `remember` is
    called once with the cluster's store, to write its connection. `metrics` says where brokers'
    own counts are read, `inventories` names the files of brokers' disks, which are read afresh
    each time; `keep` says how long snapshots stay, asked before any is removed; `each_round` is
    called before each. `analysis` makes the child's command line out of data folder and cluster
    id; None analyzes nothing.
    Raises ClusterError when the first connection fails, InventoryError when a file cannot be used
    at the start; later outages are events, and the loop goes on.
    """
    told = _one_at_a_time(emit)
    live = open_live()
    child: AnalysisChild | None = None
    cluster: ClusterStore | None = None
    try:
        cluster = ClusterStore(store, live.cluster_id())
        check_cluster(load_all(inventories), cluster.cluster_id)
        remember(cluster)
        if analysis is not None:
            child = AnalysisChild(analysis(store.root, cluster.cluster_id), told)
            child.tend()
        started, done = time.monotonic(), 0
        while True:
            each_round()
            live = _round(
                live, open_live, cluster, child, now=now, emit=told, progress=progress,
                metrics=metrics, inventories=inventories, keep=keep, every=every,
            )  # fmt: skip
            done += 1
            if done == rounds:
                break
            _wait_until(started + _next_slot(started, every), child)
        _finish(child)
    finally:
        if cluster is not None:  # pages tell a watch that ended from one that fails
            attempts.left(cluster, now(), progress)
        live.close()
        if child is not None:
            child.close()


def _round(
    live: LiveCluster,
    open_live: Callable[[], LiveCluster],
    cluster: ClusterStore,
    child: AnalysisChild | None,
    *,
    now: Callable[[], datetime],
    emit: Emit,
    progress: Callable[[str], None],
    metrics: Sources | None,
    inventories: Sequence[str],
    keep: Callable[[], SnapshotSettings],
    every: timedelta,
) -> LiveCluster:
    """One snapshot, or an event that says why not; the connection to use from now on."""

    def refused(error: LowwaterError) -> None:
        emit({"event": "error", **error.to_json()})

    disks = load_usable(inventories, cluster.cluster_id, refused)
    try:
        collected = collect(
            live, cluster, now=now, progress=progress, metrics=metrics, inventories=disks,
            keep=keep, every=every,
        )  # fmt: skip
    except LowwaterError as error:
        refused(error)
        return _reopened(live, open_live) if isinstance(error, ClusterError) else live
    emit({"event": "snapshot", **collected.to_json()})
    if child is not None:
        child.analyze(collected.snapshot_id)
    return live


def _reopened(live: LiveCluster, open_live: Callable[[], LiveCluster]) -> LiveCluster:
    # The brokers may have come back elsewhere: begin again at the bootstrap addresses.
    with suppress(ClusterError):
        fresh = open_live()
        live.close()
        return fresh
    return live


def _next_slot(started: float, every: timedelta) -> float:
    """Seconds after the start at which the next snapshot is due: slots that passed are skipped."""
    step = every.total_seconds()
    return (int((time.monotonic() - started) / step) + 1) * step


def _wait_until(due: float, child: AnalysisChild | None) -> None:
    while (left := due - time.monotonic()) > 0:
        time.sleep(min(left, _TEND_SECONDS))
        if child is not None:
            child.tend()


def _finish(child: AnalysisChild | None) -> None:
    """After the last round: let the analysis of the newest snapshot end, unless it died."""
    while child is not None and child.alive and not child.idle:
        time.sleep(_TEND_SECONDS / 5)


def _one_at_a_time(emit: Emit) -> Emit:
    lock = threading.Lock()

    def told(event: dict[str, Any]) -> None:
        with lock:
            emit(event)

    return told
