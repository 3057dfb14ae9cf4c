"""A real Streams application purges its repartition topic itself (KIP-811), and a policy beside it.

Kafka has no count of an application's purges but the brokers' count of requests, which is the truth
here; what Lowwater tells comes from snapshots alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from dashboard.broker_metrics.sources import read
from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain.metric_names import REQUEST_TIME
from dashboard.domain.model import TopicPartition
from dashboard.policies.doctor.diagnosis import Diagnosis, Rules
from dashboard.policies.doctor.repartition import diagnose
from tests.brokers.policy_bench import PolicyBench
from tests.brokers.purge_bench import Bench, lone_bench
from tests.brokers.streams_app import counting_app
from tests.brokers.workload import ANSWERS_WITHIN, until

BOTH = ["at_least_once", "exactly_once_v2"]
KEYS = [b"%02d" % number for number in range(40)]
RULES = Rules(least_span=timedelta(seconds=3), reads_take=timedelta(seconds=1))
RETENTION_CHECK = timedelta(seconds=5)  # of the test's brokers
SEGMENT_BYTES = 1 << 20


@pytest.fixture
def bench(cluster: LocalCluster, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path / "bench")
    yield made
    made.close()


@contextmanager
def policy_of(bench: Bench, folder: Path, interval: timedelta) -> Iterator[PolicyBench]:
    found = PolicyBench(bench, folder, interval, streams=True)
    try:
        yield found
    finally:
        found.close()
        until(lambda: forgotten(bench, found.app), 180)


def forgotten(bench: Bench, prefix: str) -> bool:
    """Remove topics and groups of the applications; whether none is left. One that is known guards
    all topics of these brokers, which other tests go on with.
    """
    left = [name for name in bench.admin.list_topics(timeout=20).topics if name.startswith(prefix)]
    for done in bench.admin.delete_topics(left).values() if left else ():
        with suppress(KafkaException):
            done.result(ANSWERS_WITHIN)
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        groups = [g.group_id for g in live.groups((), with_offsets=False).groups]
    listed = [group for group in groups if group.startswith(prefix)]
    for done in bench.admin.delete_consumer_groups(listed).values() if listed else ():
        with suppress(KafkaException):  # it has members still
            done.result(ANSWERS_WITHIN)
    return not left and not listed


class Traffic:
    """Records of a thousand bytes, keys in turn, so many a second, while the block lasts."""

    def __init__(self, bench: Bench, topic: str, per_second: int) -> None:
        self._bench, self._topic, self._every = bench, topic, 1 / per_second
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)
        self.counts = dict.fromkeys(KEYS, 0)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(150)

    @property
    def records(self) -> int:
        return sum(self.counts.values())

    def _produce(self) -> None:
        once = {"linger.ms": "20", "enable.idempotence": "true"}
        producer = Producer(client(self._bench.bootstrap, acks="all", **once))
        due = time.monotonic()
        while not self._over.is_set():
            key = KEYS[self.records % len(KEYS)]
            producer.produce(self._topic, b"x" * 1000, key=key, partition=0)
            self.counts[key] += 1
            producer.poll(0)
            due += self._every
            time.sleep(max(0.0, due - time.monotonic()))
        assert producer.flush(120) == 0


def config_of(bench: Bench, guarantee: str, interval: timedelta, state: Path) -> Mapping[str, str]:
    return {
        "bootstrap.servers": bench.bootstrap, "replication.factor": str(bench.replicas),
        "state.dir": str(state), "processing.guarantee": guarantee,
        "commit.interval.ms": "100", "topic.segment.bytes": str(SEGMENT_BYTES),
        "repartition.purge.interval.ms": str(interval // timedelta(milliseconds=1)),
        # Whoever starts next need not wait long for this one's session to end.
        "consumer.internal.leave.group.on.close": "true", "session.timeout.ms": "15000",
        # A machine that stalls is no application that hangs.
        "producer.transaction.timeout.ms": "60000",
    }  # fmt: skip


def collected_until(bench: Bench, wanted: Callable[[], bool], seconds: float) -> None:
    """Snapshots one after another, until they or the journal show what is wanted."""
    end = time.monotonic() + seconds
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        while not wanted():
            assert time.monotonic() < end, "waited in vain"
            for _ in range(4):
                collect(live, bench.store, now=utc_now, progress=lambda _: None)


def seen(policy: PolicyBench, topic: str) -> list[Diagnosis]:
    """What the doctor says of it now."""
    bench = policy.bench
    found = diagnose(bench.store, bench.journal, policy.settings, utc_now(), RULES)
    return [one for one in found if one.topic == topic]


def kinds(policy: PolicyBench, topic: str) -> set[str]:
    return {one.kind for one in seen(policy, topic)}


def shows(told: list[Diagnosis]) -> bool:
    """Whether the application's purges show a rhythm."""
    return any(one.rhythm is not None for one in told)


def purge_requests(exporters: Mapping[int, str]) -> int:
    """How many DeleteRecords requests the brokers have answered, whoever sent them."""
    return sum(
        int(m.value)
        for broker, source in exporters.items()
        for m in read(broker, source, timedelta(seconds=20))
        if m.name == f"{REQUEST_TIME}_count" and m.labels == '{"request":"DeleteRecords"}'
    )


def starts(bench: Bench, topic: str) -> list[datetime]:
    """When each purge of ours of its one partition was queued or, later, sent; oldest first."""
    return [
        max(run.queued_at, row.sent_at or run.queued_at)
        for run in bench.journal.runs()[::-1]
        for row in bench.journal.partitions(run.run_id)
        if row.topic == topic
    ]


def pauses(bench: Bench, topic: str) -> list[timedelta]:
    """Between two purges of ours."""
    return [later - earlier for earlier, later in pairwise(starts(bench, topic))]


def assert_recognised(told: list[Diagnosis], interval: timedelta) -> None:
    """All purges are the application's, and its setting lies between the bounds."""
    evidence, rhythm = told[0].evidence, told[0].rhythm
    assert evidence.others_at_least == evidence.purges_at_least
    assert rhythm is not None, told
    assert rhythm.interval_high >= interval, rhythm
    assert (rhythm.interval_low or timedelta(0)) <= interval, rhythm


@pytest.mark.timeout(600)
@pytest.mark.parametrize("guarantee", BOTH)
def test_an_applications_purges_are_counted_and_ours_beside_them_keep_their_interval(
    bench: Bench, exporters: dict[int, str], tmp_path: Path, guarantee: str
) -> None:
    # Ours finds something between two of its own.
    interval, own, source = timedelta(seconds=1), timedelta(seconds=2), bench.topic(0)
    with policy_of(bench, tmp_path, interval) as policy:
        service = policy.service()  # looks, and finds nothing switched on
        policy.topic = f"{policy.app}-by-key-repartition"
        config = config_of(bench, guarantee, own, tmp_path / "one")
        with counting_app(policy.app, source, config), Traffic(bench, source, 100) as traffic:
            before = purge_requests(exporters)
            collected_until(bench, lambda: shows(seen(policy, policy.topic)), 180)
            sent = purge_requests(exporters) - before
            told = seen(policy, policy.topic)
            assert_recognised(told, own)
            assert 4 <= (told[0].evidence.others_at_least or 0) <= sent
            assert policy.runs() == []

            policy.switch_on()
            collected_until(bench, lambda: len(policy.runs()) > 2, 180)
            collected_until(bench, lambda: "two-purgers" in kinds(policy, policy.topic), 120)
            assert service.end() == 130, service.log()
        # Where the application was there first, nothing is sent.
        assert {run.state for run in policy.runs()} <= {"done", "refused"}
        assert min(pauses(bench, policy.topic)) >= interval
        config = config_of(bench, guarantee, own, tmp_path / "two")
        with counting_app(policy.app, source, config) as counts:
            until(lambda: counts() == traffic.counts, 120)
    assert bench.journal.verify().ok


@pytest.mark.slow
@pytest.mark.timeout(2700)
def test_half_an_hour_beside_two_applications(kafka_jars: KafkaJars, tmp_path: Path) -> None:
    """One purges by itself each 5 s, too, one leaves it to the policy: none of ours is sooner than
    5 s, their disks are bounded, and both applications are whole without their states.
    """
    interval, seconds, per_second = timedelta(seconds=5), 1800, 150
    own = dict(zip(BOTH, (interval, timedelta(hours=1)), strict=True))
    with (
        lone_bench(kafka_jars, tmp_path) as bench,
        policy_of(bench, tmp_path, interval) as policy,
    ):
        names = {guarantee: f"{policy.app}-{guarantee.split('_')[0]}" for guarantee in BOTH}
        topics = [f"{name}-by-key-repartition" for name in names.values()]
        sources = {guarantee: bench.topic(0, retention_bytes=str(20 << 20)) for guarantee in BOTH}
        traffic = [Traffic(bench, source, per_second) for source in sources.values()]

        @contextmanager
        def running(folder: str) -> Iterator[list[Callable[[], dict[bytes, int]]]]:
            with ExitStack() as applications:
                yield [
                    applications.enter_context(
                        counting_app(
                            names[g], source, config_of(bench, g, own[g], tmp_path / folder / g)
                        )
                    )
                    for g, source in sources.items()
                ]

        with running("one"), traffic[0], traffic[1]:
            service = policy.service()
            policy.switch_on()
            # No policy purges what no snapshot has shown.
            collected_until(bench, lambda: all(len(starts(bench, t)) > 2 for t in topics), 300)
            sizes = watched(bench, topics, seconds)
            assert service.end() == 130, service.log()
        for topic in topics:
            assert_bounded(pauses(bench, topic), sizes[topic], interval, per_second)
        assert "two-purgers" in kinds(policy, topics[0])
        with running("two") as counted:
            for counts, written in zip(counted, traffic, strict=True):
                until(lambda c=counts, w=written: c() == w.counts, 240)  # type: ignore[misc]
        assert bench.journal.verify().ok


def assert_bounded(
    apart: list[timedelta], sizes: list[int], interval: timedelta, per_second: int
) -> None:
    """Two intervals' writes lie there at most, as long as the machine let these be, and what comes
    until old segments are looked for; the segment that holds the log start stays whole.
    """

    def most(pause: timedelta) -> int:
        # A record is a little more than its value.
        seconds = (2 * pause + RETENTION_CHECK).total_seconds()
        return SEGMENT_BYTES + round(1100 * per_second * seconds)

    within = sum(size <= most(interval) for size in sizes) / len(sizes)
    print(
        f"{len(apart) + 1} purges of ours, {min(apart)} to {max(apart)} apart; {max(sizes)} bytes "
        f"at most; {within:.1%} of {len(sizes)} looks below {most(interval)}"
    )
    assert min(apart) >= interval
    assert max(sizes) <= most(max(apart))


def watched(bench: Bench, topics: Sequence[str], seconds: float) -> dict[str, list[int]]:
    """The largest replica of each topic's one partition every 2 s; a snapshot every 20 s."""
    keys = [TopicPartition(topic, 0) for topic in topics]
    found: dict[str, list[int]] = {topic: [] for topic in topics}
    end, looks, missed = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        try:
            with connect({"bootstrap.servers": bench.bootstrap}) as live:
                answer = live.log_dirs(keys)
                if looks % 10 == 0:
                    collect(live, bench.store, now=utc_now, progress=lambda _: None)
            if not answer.errors:
                for topic, sizes in found.items():
                    sizes.append(max(r.size_bytes for r in answer.replicas if r.topic == topic))
        except ClusterError:  # the machine is busy; what the policy does goes on
            missed += 1
        looks += 1
        time.sleep(2)
    assert missed <= looks / 50
    return found
