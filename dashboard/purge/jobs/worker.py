"""The worker of one run: `python -m dashboard.purge.jobs.worker [--run ID] --state-dir DIR`.

It holds the run's file lock, so that a second worker of the same run ends at once; it begins by
reading the cluster, so that a worker that was killed half-way is followed by one that knows.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path

from dashboard.cluster.live import LiveCluster, connect
from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError, LowwaterError, unexpected
from dashboard.core.processes import lean
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute import stop_rules
from dashboard.purge.execute.archiving import Reading, refuse_unreached
from dashboard.purge.execute.carrying import carry_out, forget_lock, held, say
from dashboard.purge.execute.stop_rules import expires_at
from dashboard.purge.jobs.worker_process import told_run
from dashboard.purge.journal.head import journal_in
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import RunRow
from dashboard.purge.receipt.receipt import Checkpoints
from dashboard.purge.receipt.replica_watch import ReplicaWatch
from dashboard.settings import settings as settings_file
from dashboard.settings.current import CurrentSettings, each_second, either
from dashboard.settings.settings import Settings
from dashboard.store import own_reads
from dashboard.store.connections import client_of_run
from dashboard.store.snapshots import ClusterStore, Store

_RETRY_SECONDS = 0.5


def main(argv: list[str] | None = None) -> int:
    """Carry out and watch one run; 0 when it is closed and followed, else the error's code."""
    parser = argparse.ArgumentParser(prog="dashboard.purge.jobs.worker")
    parser.add_argument("--run", help="without it, the run is read from stdin once it is known")
    parser.add_argument("--again", action="store_true", help="another worker of it has died")
    parser.add_argument("--state-dir", required=True, type=Path)
    parser.add_argument("--on-network", action="store_true", help="as state_dir_on_network")
    args = parser.parse_args(argv)
    if args.run is None:  # its plan is still being made: what judges it is loaded meanwhile
        import_module("dashboard.purge.plan.standing")
    run_id = args.run or told_run(args.state_dir)
    if run_id is None:
        return 0
    try:
        journal = Journal(journal_in(args.state_dir), on_network=args.on_network)
        with held(journal, args.state_dir, run_id, utc_now) as first:
            if first and _work(journal, run_id, again=args.again):
                forget_lock(args.state_dir, run_id)
    except LowwaterError as error:
        say(f"{error.code}: {error.message} {error.next_step}")
        return error.exit_code
    return 0


def _work(journal: Journal, run_id: str, *, again: bool) -> bool:
    """Carry out and follow; whether there is nothing more to see of it."""
    run = journal.head(run_id)
    try:
        run.options.all_known(f"run {run_id}")
        own = _own_settings()
        chosen = _settings(run)
        current = CurrentSettings(chosen, environ=_pinned(run))
        plan = journal.plan(run_id)
        if again and run.options.archive is not None and journal.partitions(run_id, ("pending",)):
            refuse_unreached(run, current.get().archive)
        live = _connect(chosen, run, utc_now)
    except Exception as error:
        # Whoever starts a worker again may lack what it needs: a container without the settings, a
        # package, a network without Kafka, the archive's credentials or its key. The next one may
        # have it.
        why = error if isinstance(error, LowwaterError) else unexpected(error)
        may_wait = again and run.wish != "cancel" and utc_now() < expires_at(run)
        if run.open and may_wait:
            stop_rules.leave(journal, run_id, why, utc_now())
        elif run.open:
            stop_rules.close(journal, run, "unreached", why, utc_now())
        raise
    with live:
        closed = carry_out(
            live, journal, run_id, now=utc_now, sleep=time.sleep,
            read_only=_read_only(run, chosen, own), policies=lambda: current.get().policies,
            standards=lambda plan: standards(
                current.get(), _store(run), plan.topic_ids, utc_now()
            ),
            reading=Reading(
                lambda: client_of_run(chosen, _store(run), run.connection),
                lambda: current.get().archive,
                lambda name, now: own_reads.reading(_store(run), name, say, now),
            ),
        )  # fmt: skip
        watch = ReplicaWatch(
            live, journal, closed, plan, utc_now, time.sleep,
            checkpoints=Checkpoints(_store(run), utc_now),
        )  # fmt: skip
        watch.watch()
        return not watch.silent


def _own_settings() -> Settings:
    """Those of who started this worker, of which one key counts."""
    return settings_file.load()


def _settings(run: RunRow) -> Settings:
    """Those of who queued the run: who starts its worker again may stand anywhere.

    A run of an earlier version has no variables pinned; whoever starts its worker gives none.
    """
    chosen = settings_file.load_pinned(run.connection.get("settings"), run.connection)
    kept_ms = run.options.broker_timeout_ms
    timeout = chosen.broker_timeout if kept_ms is None else timedelta(milliseconds=kept_ms)
    return replace(chosen, broker_timeout=timeout)


def _read_only(run: RunRow, chosen: Settings, own: Settings) -> Callable[[], str | None]:
    """The switch of who queued the run, and of who started this worker: either stops it."""
    return either(each_second(chosen, environ=_pinned(run)), each_second(own))


def _pinned(run: RunRow) -> dict[str, str]:
    """The environment variables of who queued the run, as far as they count."""
    variables = {name: value for name, value in run.connection.items() if value}
    return {name: variables[name] for name in settings_file.PINNED if name in variables}


def _store(run: RunRow) -> ClusterStore:
    return ClusterStore(Store(str(run.connection["data"])), run.cluster_id)


def _connect(chosen: Settings, run: RunRow, now: Callable[[], datetime]) -> LiveCluster:
    """Connect, trying again for as long as the run's requests may take."""
    client = client_of_run(chosen, _store(run), run.connection)
    deadline = now() + timedelta(milliseconds=run.options.timeout_ms)
    while True:
        try:
            return connect(client, chosen.broker_timeout, cluster_id=run.cluster_id)
        except ClusterError as error:
            if not error.retriable or now() >= deadline:
                raise
            time.sleep(_RETRY_SECONDS)


if __name__ == "__main__":
    # As the command line, and for the same reasons.
    gc.set_threshold(100_000, 20, 100)
    lean()
    sys.exit(main())
