"""The repartition doctor on real brokers: one topic of each kind, seen in several snapshots."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.policies.doctor.diagnosis import Diagnosis, Rules
from dashboard.policies.doctor.repartition import diagnose
from tests.brokers.purge_bench import Bench
from tests.brokers.workload import ANSWERS_WITHIN, until

ROUNDS = 8
# What takes hours elsewhere takes seconds here: a round lasts some of them.
RULES = Rules(
    least_span=timedelta(seconds=5),
    dead_after=timedelta(seconds=25),
    least_purges=6,
    least_ratio=14,
    reads_take=timedelta(seconds=1),
)
# The topics are new, and the other applications have members.
NO_PATTERNS = "no-committed-offset=nobody here subscribes by a pattern"


@pytest.fixture
def bench(cluster: LocalCluster, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path)
    yield made
    made.close()


class Streams:
    """An application with one repartition topic, played by plain clients."""

    def __init__(self, bench: Bench, partitions: int = 1) -> None:
        self.bench = bench
        self.group = f"doctor-{uuid.uuid4().hex[:6]}"
        self.topic = bench.topic(
            *[0] * partitions, name=f"{self.group}-counts-repartition", retention_ms="-1"
        )
        self.ends = dict.fromkeys(range(partitions), 0)
        self.member: Consumer | None = None

    @contextmanager
    def runs(self) -> Iterator[None]:
        """With a member: of whom has none and has just committed, nobody can tell."""
        values = {"group.id": self.group, "enable.auto.commit": "false", "log_level": "0"}
        self.member = member = Consumer({"bootstrap.servers": self.bench.bootstrap, **values})
        member.subscribe([self.topic])
        until(lambda: member.poll(0.2) is None and bool(member.assignment()), 60)
        try:
            yield
        finally:
            member.close()

    def reads(self, records: int) -> None:
        """So many more records in each partition, all of them read and committed."""
        for partition in self.ends:
            self.bench.produce(self.topic, partition, records)
            self.ends[partition] += records
        if self.member is None:
            self.bench.commit(self.group, self.topic, self.ends)
        else:
            self.member.consume(1000, 0.01)  # its poll keeps it in the group
            self.member.commit(offsets=self._to_the_end(), asynchronous=False)

    def _to_the_end(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, p, end) for p, end in self.ends.items()]

    def purges(self) -> None:
        """What Streams does after a commit, with a client that is not ours."""
        for answered in self.bench.admin.delete_records(self._to_the_end()).values():
            answered.result(ANSWERS_WITHIN)


@pytest.mark.slow
@pytest.mark.spark
def test_the_doctor_names_each_topic(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
    grows, gone, both, well = (Streams(bench) for _ in range(4))
    eager = Streams(bench, partitions=2)
    gone.reads(300)
    with ExitStack() as running:
        for application in (grows, both, well, eager):
            running.enter_context(application.runs())
        for _ in range(ROUNDS):
            grows.reads(700)
            eager.reads(3)
            eager.purges()
            both.reads(20)
            plan = bench.plan(both.topic, override=(NO_PATTERNS,))
            assert bench.apply(plan).run.state == "done"
            both.reads(10)
            both.purges()
            well.reads(1300)
            well.purges()
            collected = _json(capsys, bench, "collect", "--bootstrap-server", bench.bootstrap)
            assert collected["tables"]
    assert _json(capsys, bench, "analyze")["tables"]["holds"]

    found = _by_topic(diagnose(bench.store, bench.journal, bench.settings, utc_now(), RULES))

    told = {
        name: found[app.topic].sentence
        for name, app in (
            ("grows", grows),
            ("gone", gone),
            ("both", both),
            ("well", well),
            ("eager", eager),
        )
    }
    assert found[grows.topic].kind == "not-purged", told
    assert found[eager.topic].kind == "purged-too-often", told
    assert found[gone.topic].kind == "application-dead", told
    assert found[both.topic].kind == "two-purgers", told
    assert not found[well.topic].problem, told
    _check_figures(found[grows.topic], found[gone.topic], found[eager.topic])
    assert all(f"Lowwater sent {n} purges" not in told["both"] for n in (0, 1))

    rows = _json(capsys, bench, "policies", "doctor")["rows"]
    assert {row["kind"] for row in rows} == {"not-known"}, "a minute is no history by default"


def _check_figures(grows: Diagnosis, gone: Diagnosis, eager: Diagnosis) -> None:
    # 5,600 records of a kilobyte and more on three replicas, less the active segment's.
    assert 12_000_000 < (grows.saves_bytes or 0) < 18_500_000
    assert grows.evidence.purges_at_least == 0
    assert 900_000 < (gone.saves_bytes or 0) < 1_000_000
    assert eager.evidence.purges_at_least == 2 * (ROUNDS - 1)
    assert eager.evidence.segments_freed == 0
    assert (eager.saves_requests_per_hour or 0) > 60


def _by_topic(found: list[Diagnosis]) -> dict[str, Diagnosis]:
    by_topic = {one.topic: one for one in found}
    assert len(by_topic) == len(found)
    return by_topic


def _json(capsys: pytest.CaptureFixture[str], bench: Bench, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--data", bench.settings.data, "--json"]) == 0
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value
