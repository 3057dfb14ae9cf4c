"""The one loop: collects every N, survives outages, and has each snapshot analyzed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from dashboard.broker_metrics.sources import Sources
from dashboard.cluster.live import LiveCluster
from dashboard.collect.collect import collect
from dashboard.core.errors import ClusterError, LowwaterError, SettingsError
from dashboard.core.processes import die_with_parent, environment
from dashboard.inventory.loading import check_cluster, load_all, load_usable
from dashboard.settings.sections import SnapshotSettings
from dashboard.store import attempts
from dashboard.store.snapshots import ClusterStore, Store

# One long-lived `python -m analytics --serve`: told of snapshots on stdin, answers on stdout.

Emit = Callable[[dict[str, Any]], None]
_BACK_OFF_SECONDS = (1.0, 2.0, 5.0, 15.0, 60.0)
_GRACE_SECONDS = 10.0


def command(data: str, cluster_id: str) -> list[str]:
    """The command line of the analysis that serves one cluster of a data folder."""
    return [sys.executable, "-m", "analytics", "--serve", "--data", data, "--cluster", cluster_id]


class AnalysisChild:
    """Started at once, and again with growing pauses when it dies; ends with us.

    While it analyzes one snapshot, newer ones replace each other: only the newest waits. Answers
    go to `emit` as `{"event": "analysis", …}`, from a thread of our own.
    """

    def __init__(self, arguments: Sequence[str], emit: Emit) -> None:
        self._arguments = list(arguments)
        self._emit = emit
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._running: str | None = None  # the snapshot it works on
        self._waiting: str | None = None
        self._listener: threading.Thread | None = None
        self._ready = False
        self._failures = 0
        self._start_at = 0.0

    def analyze(self, snapshot_id: str) -> None:
        """Have this snapshot analyzed as soon as the child is free."""
        with self._lock:
            self._waiting = snapshot_id
        self.tend()

    def tend(self) -> None:
        """Start the child if it is not there and its pause is over; hand it what waits."""
        if self._process is not None and self._process.poll() is not None:
            self._buried()
        if self._process is None and time.monotonic() >= self._start_at:
            self._start()
        self._hand_over()

    @property
    def alive(self) -> bool:
        """Whether the child runs now."""
        return self._process is not None and self._process.poll() is None

    @property
    def idle(self) -> bool:
        """Whether nothing is being analyzed and nothing waits for it."""
        return self._running is None and self._waiting is None

    def close(self) -> None:
        """End the child: its input closes, then SIGTERM, then SIGKILL to its whole group."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin:
                process.stdin.close()
        for number, patience in ((None, _GRACE_SECONDS), (signal.SIGTERM, 2.0)):
            if number is not None:
                _signal_group(process, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience)
                break
        _signal_group(process, signal.SIGKILL)
        process.wait()
        if self._listener:
            self._listener.join(_GRACE_SECONDS)  # the last answer may not be told yet

    def _start(self) -> None:
        self._ready = False
        try:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment(),
                # Its own session: Ctrl-C reaches us alone, and we end it in order.
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - prctl, getppid
            )
        except OSError as error:
            self._failed(f"the analysis could not be started: {error}")
            return
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._take(line)

    def _take(self, line: str) -> None:
        answer = _parsed(line)
        if answer is None:
            return  # a library's own print: no answer of ours
        if answer.get("ready"):
            self._ready = True
            self._emit({"event": "analysis-ready", "seconds": answer.get("seconds")})
        else:
            with self._lock:
                self._running = None
                # Before it is ready an answer is why it cannot start: pauses go on growing.
                self._failures = 0 if self._ready else self._failures
            self._emit({"event": "analysis", **answer})
        self._hand_over()

    def _hand_over(self) -> None:
        with self._lock:
            process = self._process
            if not self._ready or self._running or self._waiting is None or process is None:
                return
            self._running, self._waiting = self._waiting, None
            line = json.dumps({"snapshot_id": self._running}) + "\n"
        with suppress(OSError, ValueError):  # it died: tend() notices and starts it again
            if process.stdin:
                process.stdin.write(line)
                process.stdin.flush()

    def _buried(self) -> None:
        process, self._process = self._process, None
        code = process.returncode if process else None
        if process and process.stdin:
            with suppress(OSError):  # what could not be written to it any more
                process.stdin.close()
        with self._lock:
            # The newest one is worth another try; an older one that was running is not.
            self._waiting = self._waiting or self._running
            self._running = None
        self._failed(f"the analysis ended with status {code}")

    def _failed(self, message: str) -> None:
        pause = _BACK_OFF_SECONDS[min(self._failures, len(_BACK_OFF_SECONDS) - 1)]
        self._failures += 1
        self._start_at = time.monotonic() + pause
        error = {
            "code": "ANALYSIS_FAILED",
            "message": message,
            "next": f"It is started again in {pause:g} s; its own message stands above.",
        }
        self._emit({"event": "analysis", "error": error})


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


_TEND_SECONDS = 0.5
_Refused = Callable[[LowwaterError], None]


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
    outdated: Callable[[], bool] = lambda: False,
) -> None:
    """Collect every `every` until Ctrl-C (KeyboardInterrupt passes through), or for `rounds`.

    `emit` gets one JSON-able event a time: `{"event": "snapshot", …}` as `collect --json` has it,
    `{"event": "analysis", …}`, `{"event": "analysis-ready", "seconds"}`, or `{"event": "error",
    "error": {code, message, next}}`; it is called by two threads, one at a time. `remember` is
    called once with the cluster's store, to write its connection. `metrics` says where brokers'
    own counts are read, `inventories` names the files of brokers' disks, which are read afresh
    each time; `keep` says how long snapshots stay, asked before any is removed; `each_round` is
    called before each. `outdated` says before each whether `open_live` would sign in otherwise by
    now: then it is opened anew, else brokers that restart would refuse us one by one. `analysis`
    makes the child's command line out of data folder and cluster
    id; None analyzes nothing.
    Raises ClusterError when the first connection fails, InventoryError when a file cannot be used
    at the start; later outages are events, and the loop goes on.
    """
    told = _one_at_a_time(emit)

    def refused(error: LowwaterError) -> None:
        told({"event": "error", **error.to_json()})

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
            if outdated():  # brokers would tell it one by one as they restart
                live = _reopened(live, open_live, refused)
            live = _round(
                live, open_live, cluster, child, now=now, emit=told, refused=refused,
                progress=progress, metrics=metrics, inventories=inventories, keep=keep,
                every=every,
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
    refused: _Refused,
    progress: Callable[[str], None],
    metrics: Sources | None,
    inventories: Sequence[str],
    keep: Callable[[], SnapshotSettings],
    every: timedelta,
) -> LiveCluster:
    """One snapshot, or an event that says why not; the connection to use from now on."""
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


def _reopened(
    live: LiveCluster, open_live: Callable[[], LiveCluster], refused: _Refused = lambda _: None
) -> LiveCluster:
    # The brokers may have come back elsewhere: begin again at the bootstrap addresses. Where that
    # fails, also for what a client config says by now, what is open may do.
    try:
        fresh = open_live()
    except (ClusterError, SettingsError) as error:
        refused(error)
        return live
    live.close()
    return fresh


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
