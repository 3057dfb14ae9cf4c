"""A Streams application and its policy's services: real brokers, real processes, one journal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from dashboard.cluster.live import LiveCluster, connect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import client
from dashboard.policies.service.purging import Site
from dashboard.policies.service.service import Service
from dashboard.policies.service.switching import switch_off, switch_on
from dashboard.purge.journal.rows import RunRow
from dashboard.settings import settings
from dashboard.settings.current import CurrentSettings
from tests.brokers.purge_bench import Bench

_TOML = """
data = "{data}"
state_dir = "{state}"
broker_timeout = "20s"
[purge]
watch_for = "60s"
pattern_refresh = "0s"
[policies.streams]
preset = "repartition"
topics = ["{app}-*"]
min_purge_interval_ms = {interval_ms}
"""
# The preset vouches for Streams applications alone.
_OF_PLAIN_CONSUMERS = """
overrides = { "readers-undeclared" = "the bench reads it alone" }
"""
_STARTS_WITHIN = 240.0


class Application:
    """Produces records of 1,000 bytes into its repartition topic, reads them and commits."""

    def __init__(self, bench: Bench, app: str, topic: str, per_second: int) -> None:
        self._bench, self._app, self._topic = bench, app, topic
        self._every = 1 / per_second
        self._over = threading.Event()
        self.produced_bytes = 0
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._produce, self._consume)
        ]

    def __enter__(self) -> Application:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def _produce(self) -> None:
        producer = Producer(client(self._bench.bootstrap, **{"linger.ms": "20"}))
        while not self._over.wait(self._every):
            producer.produce(self._topic, os.urandom(1000), partition=0)
            producer.poll(0)
            self.produced_bytes += 1000
        producer.flush(30)

    def _consume(self) -> None:
        given = {"group.id": self._app, "auto.offset.reset": "earliest",
                 "enable.auto.commit": "false"}  # fmt: skip
        reader = Consumer(client(self._bench.bootstrap, **given))
        reader.subscribe([self._topic])
        while not self._over.is_set():
            if reader.consume(1000, timeout=0.5):
                reader.commit(asynchronous=False)
        reader.close()


class Process:
    """One `lowwater policies run --json`; its events as they come."""

    def __init__(self, source: Path) -> None:
        lowwater = [sys.executable, "-c", "from dashboard.cli.main import run; run()"]
        self.events: list[dict[str, Any]] = []
        self._log = source.parent / f"{uuid.uuid4().hex}.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*lowwater, "policies", "run", "--json"],
                stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, "LOWWATER_SETTINGS": str(source)},
            )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def kinds(self) -> list[str]:
        return [event["event"] for event in self.events]

    def until(self, said: Callable[[], bool], seconds: float = _STARTS_WITHIN) -> None:
        """Wait for what the service says or does."""
        until = time.monotonic() + seconds
        while not said():
            assert time.monotonic() < until, (self.events[-5:], self.log())
            assert self.process.poll() is None, self.log()
            time.sleep(0.05)

    def log(self) -> str:
        return self._log.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))


class PolicyBench:
    """A topic of one application, its settings file, and the journal that its services share."""

    def __init__(
        self,
        bench: Bench,
        folder: Path,
        interval: timedelta,
        more: str = "",
        *,
        streams: bool = False,
    ) -> None:
        """`more`: further lines of the policy; `streams`: its application is a real one."""
        self.bench, self.interval = bench, interval
        self.app = f"app{uuid.uuid4().hex[:8]}"
        self.topic = f"{self.app}-x-repartition"
        self.source = folder / "lowwater.toml"
        self.source.write_text(
            _TOML.format(
                data=bench.settings.data,
                state=bench.settings.state_dir,
                app=self.app,
                interval_ms=interval // timedelta(milliseconds=1),
            )
            + ("" if streams else _OF_PLAIN_CONSUMERS)
            + more
        )
        self.settings = settings.load(self.source)
        (self.policy,) = self.settings.policies
        self._processes: list[Process] = []

    def switch_on(self) -> None:
        switch_on(
            self.settings, self.bench.journal, self.bench.store, self.policy,
            typed=self.policy.confirmation("test"), who="test", from_where="here", now=utc_now(),
        )  # fmt: skip

    def switch_off(self) -> None:
        switch_off(
            self.settings, self.bench.journal, self.bench.store, self.policy.name,
            who="test", from_where="here", now=utc_now(),
        )  # fmt: skip

    def half_sent(self) -> str:
        """A run whose first request was carried out, and whose worker died before its answer."""
        site = Site(
            CurrentSettings(self.settings), self.bench.store, self.bench.journal, utc_now,
            time.sleep,
        )  # fmt: skip

        def reached() -> LiveCluster:
            return connect({"bootstrap.servers": self.bench.bootstrap})

        service = Service(site, reached, emit=lambda _: None, start=lambda _: None)
        service.turn()
        service.close()
        (run,) = self.runs()
        row = self.bench.journal.partitions(run.run_id)[0]
        with reached() as live:
            leader = live.topics([self.topic])[self.topic].partitions[0]
            assert leader.leader_id is not None
            sent = replace(
                row, state="sent", attempts=1,
                sent_leader_id=leader.leader_id, sent_leader_epoch=leader.leader_epoch,
            )  # fmt: skip
            self.bench.journal.intend(
                run.run_id, [sent], utc_now, leader_id=leader.leader_id, mode=run.mode
            )
            live.delete_records(leader.leader_id, {row.key: row.target_offset}, timeout_ms=20_000)
        return run.run_id

    def application(self, per_second: int) -> Application:
        return Application(self.bench, self.app, self.topic, per_second)

    def service(self) -> Process:
        self._processes.append(Process(self.source))
        return self._processes[-1]

    def close(self) -> None:
        """After a failure, too, the next test finds no leader: SIGTERM gives the lease back."""
        for each in self._processes:
            if each.process.poll() is None:
                try:
                    each.end()
                except subprocess.TimeoutExpired:
                    each.end(signal.SIGKILL)

    def runs(self) -> list[RunRow]:
        """This policy's runs of this topic's cluster, oldest first."""
        mine = set(self.bench.journal.policy_runs(self.bench.store.cluster_id))
        return [r for r in self.bench.journal.runs()[::-1] if r.run_id in mine and self._is_ours(r)]

    def _is_ours(self, run: RunRow) -> bool:
        return any(p.topic == self.topic for p in self.bench.journal.partitions(run.run_id))

    def starts(self) -> list[datetime]:
        """When each purge was queued or, later, sent."""
        rows = [(r, self.bench.journal.partitions(r.run_id)[0]) for r in self.runs()]
        return [max(run.queued_at, row.sent_at or run.queued_at) for run, row in rows]

    def bytes_on_disk(self) -> int:
        """Over all replicas."""
        with connect({"bootstrap.servers": self.bench.bootstrap}) as live:
            return sum(r.size_bytes for r in live.log_dirs().replicas if r.topic == self.topic)
