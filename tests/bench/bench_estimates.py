"""Bytes that come true: what each estimator predicts, beside what the purge then frees.

`python -m tests.bench.bench_estimates`. Three brokers of its own; topics with skewed histories,
snapshots while they are written, an inventory at the end, four purges one after the other.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import TopicPartition as Part

from analytics.job import analyze
from analytics.session.session import open_session
from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka import jars
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.domain.model import METHODS, TopicPartition
from dashboard.inventory import loading, scan
from dashboard.inventory.recorder import Recorder
from dashboard.purge.journal.rows import RunView
from dashboard.purge.plan.plan import Plan
from dashboard.purge.receipt import replica_watch as receipt_estimates
from dashboard.purge.receipt.model import TopicOutcome
from dashboard.settings import settings as settings_files
from dashboard.settings.settings import Settings
from tests.bench import estimates_truth as truth
from tests.bench.estimates_report import Told, report
from tests.bench.estimates_workload import HISTORIES, ROUNDS, TURNS, Writer
from tests.brokers.purge_bench import Bench

# Shares of the bytes that lie below each target; the last one lies in the active segment.
STAGES = {"early": 0.25, "middle": 0.5, "late": 0.8, "active": 1.0}
_JITTER = 0.03  # of a log, so that targets of different partitions lie differently in segments
QUICK = {
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
}
NAMES = [history.name for history in HISTORIES]
KEYS = [TopicPartition(h.name, p) for h in HISTORIES for p in range(len(h.shares))]

Logs = Mapping[tuple[int, TopicPartition], truth.Log]


class Trial:
    """A running cluster and one store per estimator; `sampled` starts from proportional's."""

    def __init__(self, cluster: LocalCluster, folder: Path, stack: ExitStack) -> None:
        self.cluster, self.folder = cluster, folder
        self.benches = {}
        for name in ("segments", "history", "proportional"):
            (folder / name).mkdir()
            bench = Bench(cluster.bootstrap, cluster.cluster_id, folder / name)
            stack.callback(bench.journal.close)
            self.benches[name] = bench
        self.applied = self.benches["segments"]
        for history in HISTORIES:
            self.applied.topic(*[0] * len(history.shares), name=history.name, **history.config)

    def write(self) -> None:
        """All histories, with a snapshot after each round."""
        writer = Writer(self.cluster.bootstrap)
        for number in range(ROUNDS * TURNS):
            writer.turn(number)
            done, rest = divmod(number + 1, TURNS)
            if not rest:
                self._snapshot("history")
                self._purged_by_others(done)

    def settle(self) -> None:
        """Until retention has deleted what it had to, and followers have followed."""
        until = time.monotonic() + 60
        seen, quiet = self._sizes(), 0
        while quiet < 3:  # of its checks, one a second
            assert time.monotonic() < until, "sizes do not settle"
            time.sleep(1)
            before, seen = seen, self._sizes()
            quiet = quiet + 1 if before == seen else 0

    def analyze(self) -> None:
        """What each store knows when all is written: an inventory, the past, one snapshot."""
        self._snapshot("segments", *self._inventories())
        self._snapshot("proportional")
        spark = open_session(Settings())
        for bench in self.benches.values():
            analyze(spark, bench.store, bench.settings, now=utc_now)
        spark.stop()

    def _snapshot(self, name: str, *inventories: loading.Inventory) -> None:
        with connect({"bootstrap.servers": self.cluster.bootstrap}) as live:
            store = self.benches[name].store
            collect(live, store, now=utc_now, progress=lambda _: None, inventories=inventories)

    def _inventories(self) -> Iterator[loading.Inventory]:
        for broker_id in self.cluster.broker_ids:
            out = str(self.folder / f"{broker_id}.inventory")
            log_dirs = [str(self.cluster.log_dir(broker_id))]
            with Recorder(out, broker_id, log_dirs, newest_from=scan.NEWEST_FROM) as recorder:
                scan.scan(log_dirs, recorder, now=utc_now)
                recorder.finish()
            yield loading.load(out)

    def _purged_by_others(self, rounds: int) -> None:
        for history in HISTORIES:
            if history.purged_after == rounds:
                with connect({"bootstrap.servers": self.cluster.bootstrap}) as live:
                    keys = [k for k in KEYS if k.topic == history.name]
                    ends = live.offsets(keys)
                parts = [Part(*key, (ends[key].high_watermark or 0) * 2 // 5) for key in keys]
                for done in self.applied.admin.delete_records(parts).values():
                    done.result(20)

    def purge(self, stage: str, logs: Logs, targets: Mapping[TopicPartition, int]) -> list[Told]:
        """Plan with each estimator, purge once, and hold each against what left the disks."""
        for history in HISTORIES:
            offsets = {k.partition: targets[k] for k in KEYS if k.topic == history.name}
            self.applied.commit("readers", history.name, offsets)
        plans = {name: bench.plan(*NAMES) for name, bench in self.benches.items()}
        plans["sampled"] = self.benches["proportional"].plan(*NAMES, sample=True)
        before, below = self._sizes(), self._below(logs, targets)
        run_id = self.applied.apply(plans["segments"], watch=True).run.run_id
        view = self._final(run_id)
        after = self._sizes()
        found = []
        for method in METHODS:
            for line in _compared(view, plans[method]):
                topic = line.topic
                freed = before[topic] - after[topic]
                assert freed == line.freed_bytes, (topic, freed, line)
                assert line.method == method, line
                found.append(
                    Told(
                        topic, stage, method,
                        line.low_bytes, line.predicted_bytes, line.high_bytes, freed,
                        _total(plans[method], topic), below[topic],
                    )
                )  # fmt: skip
        return found

    def _final(self, run_id: str) -> RunView:
        until = time.monotonic() + 60
        while not self.applied.journal.head(run_id).receipt_final:
            assert time.monotonic() < until, "the receipt is not final"
            time.sleep(0.2)
        return self.applied.journal.run(run_id)

    def _sizes(self) -> dict[str, int]:
        return self._summed(lambda broker_id, key: truth.size(self.cluster, broker_id, key))

    def _below(self, logs: Logs, targets: Mapping[TopicPartition, int]) -> dict[str, int]:
        """Bytes below the targets that are still on the disks: in whole segments and inside."""

        def of_replica(broker_id: int, key: TopicPartition) -> int:
            log = logs[broker_id, key]
            first = truth.segments(self.cluster, broker_id, key)[0]
            return log.below(targets[key]) - log.below(int(first.stem))

        return self._summed(of_replica)

    def _summed(self, of_replica: Callable[[int, TopicPartition], int]) -> dict[str, int]:
        sums: dict[str, int] = defaultdict(int)
        for broker_id in self.cluster.broker_ids:
            for key in KEYS:
                sums[key.topic] += of_replica(broker_id, key)
        return dict(sums)


def _compared(view: RunView, plan: Plan) -> list[TopicOutcome]:
    """What a final receipt keeps for calibration, had the run been planned with this plan."""
    assert view.run.receipt is not None
    kept = receipt_estimates.with_calibration(view.run.receipt, view.partitions, plan)
    return list(kept.calibration or ())


def _total(plan: Plan, topic: str) -> int:
    estimates = [p.estimate for p in plan.partitions if p.topic == topic and p.estimate]
    return sum((e.bytes_at_once or 0) + (e.bytes_later or 0) for e in estimates)


def _targets(
    log_of: Callable[[TopicPartition], truth.Log], share: float
) -> dict[TopicPartition, int]:
    found = {}
    for number, key in enumerate(KEYS):
        log = log_of(key)
        shifted = share + _JITTER * (number * 7 % 11 / 5 - 1) if share < 1 else share
        found[key] = log.offset_of(shifted) if share < 1 else log.offsets[-1] - 3
    return found


def measure(cluster: LocalCluster, folder: Path) -> list[Told]:
    """Write, analyze and purge."""
    found = []
    with ExitStack() as stack:
        trial = Trial(cluster, folder, stack)
        began = time.monotonic()
        trial.write()
        _say(f"written with {ROUNDS} snapshots: {time.monotonic() - began:.0f} s")
        trial.settle()
        trial.analyze()
        _say(f"analyzed: {time.monotonic() - began:.0f} s")
        logs = {(b, k): truth.read(cluster, b, k) for b in cluster.broker_ids for k in KEYS}
        _say(f"disks read: {time.monotonic() - began:.0f} s")
        for stage, share in STAGES.items():
            targets = _targets(lambda key: logs[1, key], share)
            found += trial.purge(stage, logs, targets)
            _say(f"{stage}: {time.monotonic() - began:.0f} s")
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Print the tables; 1 when a goal was missed."""
    chosen = settings_files.load()
    brokers = jars.resolve(chosen.kafka_version, chosen.cache_dir)
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-bench-") as text,
        LocalCluster(Path(text) / "brokers", brokers, properties=QUICK) as cluster,
    ):
        return report(measure(cluster, Path(text)))


if __name__ == "__main__":
    sys.exit(main())
