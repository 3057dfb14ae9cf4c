"""Records that somebody still wants stay, whatever offsets, clocks or waivers say: on brokers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer

from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain.model import TopicPartition
from dashboard.purge.plan.plan import Plan
from dashboard.settings.settings import TopicDeclaration
from tests.brokers.purge_bench import PURGE, SETTINGS, Bench
from tests.brokers.purge_proof import segments
from tests.brokers.workload import until


def guards(plan: Plan) -> dict[str, str]:
    return {g.name: g.reason for g in plan.partitions[0].guards}


def records(bench: Bench, topic: str) -> int:
    return len(bench.offsets(topic, 0))


@pytest.mark.further_but("committed")
@pytest.mark.parametrize("to", ["committed", "offset:400", "high-watermark"])
def test_an_offset_past_the_end_of_the_log_purges_nothing(bench: Bench, to: str) -> None:
    """Brokers take it and list it for ever; it says nothing of the 500 records that are there."""
    topic, group = bench.topic(500), f"reset-{uuid.uuid4().hex[:8]}"
    bench.commit(group, topic, {0: 1_000_000})
    plan = bench.plan(topic, to=to)
    assert plan.free_partitions == ()
    named = [g.reason for g in plan.partitions[0].guards if group in g.reason]
    assert f"Group {group} committed 1000000, past the end of the log (500)" in named[0]
    assert records(bench, topic) == 500


@pytest.mark.further
def test_an_offset_that_comes_to_lie_past_the_end_before_sending_stops_the_run(
    bench: Bench,
) -> None:
    topic, group = bench.topic(100), f"reset-{uuid.uuid4().hex[:8]}"
    bench.commit(group, topic, {0: 60})
    plan = bench.plan(topic)
    bench.commit(group, topic, {0: 1_000_000})
    view = bench.apply(plan)
    assert (view.run.state, view.partitions[0].error) == ("refused", "no-committed-offset")
    assert records(bench, topic) == 100


def test_a_waived_group_that_lives_again_keeps_what_it_has_not_read(bench: Bench) -> None:
    topic, group = bench.topic(400), f"gone-{uuid.uuid4().hex[:8]}"
    bench.commit("wanted-live", topic, {0: 400})
    bench.commit(group, topic, {0: 100})
    plan = bench.plan(topic, waive=(f"{group}=it is gone",))
    assert plan.partitions[0].target_offset == 400
    with reading(bench, group, topic):
        view = bench.apply(plan)
        lives = bench.plan(topic, waive=(f"{group}=we stop it",))
    assert (view.run.state, view.partitions[0].error) == ("refused", "unread-by-group")
    assert f"Group {group} was waived as gone and lives again" in str(view.partitions[0].message)
    assert records(bench, topic) == 400
    assert [w.alive for w in lives.waivers] == [True], "a plan says so when it is made"


@pytest.mark.further
def test_a_waived_group_that_starts_over_further_back_keeps_its_records(bench: Bench) -> None:
    topic, group = bench.topic(400), f"gone-{uuid.uuid4().hex[:8]}"
    bench.commit("wanted-live", topic, {0: 400})
    bench.commit(group, topic, {0: 300})
    plan = bench.plan(topic, waive=(f"{group}=it is gone",))
    bench.commit(group, topic, {0: 50})
    view = bench.apply(plan)
    assert (view.run.state, view.partitions[0].error) == ("refused", "unread-by-group")
    assert f"Group {group}, which is waived, moved back from 300 to 50" in str(
        view.partitions[0].message
    )
    assert records(bench, topic) == 400


@pytest.fixture
def patterns(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Groups here may subscribe by a pattern, as everywhere but on the bench."""
    assert bench.settings.source is not None
    purge = replace(PURGE, pattern_refresh=timedelta(minutes=5))
    monkeypatch.setattr(bench, "settings", replace(bench.settings, purge=purge))
    bench.settings.source.write_text(SETTINGS.replace('"0s"', '"5m"'))
    yield
    bench.settings.source.write_text(SETTINGS)


@pytest.mark.further
@pytest.mark.usefixtures("patterns")
def test_a_classic_groups_pattern_holds_a_topic_that_is_new_to_it(bench: Bench) -> None:
    """Its client resolves the pattern, and its coordinator knows the old topic's name alone."""
    prefix, group = f"twin-{uuid.uuid4().hex[:8]}", f"pattern-{uuid.uuid4().hex[:8]}"
    old = bench.topic(30, name=f"{prefix}-a")
    with reading(bench, group, f"^{prefix}-.*", **{"topic.metadata.refresh.interval.ms": "300000"}):
        new = bench.topic(300, name=f"{prefix}-b")
        bench.commit("wanted-live", new, {0: 300})
        plan = bench.plan(new)
        held = [g for g in plan.partitions[0].guards if group in g.reason]
        assert {g.name for g in held} == {"no-committed-offset"}
        edited = replace(plan, partitions=(replace(plan.partitions[0], guards=()),))
        assert bench.apply(edited).run.state == "refused"
    assert (records(bench, old), records(bench, new)) == (30, 300)


@pytest.mark.further_but("2h")
@pytest.mark.parametrize("window", ["2h", "30m"])
def test_a_replay_window_keeps_what_was_written_inside_it_whatever_its_records_times(
    bench: Bench, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CreateTime: an import of old events bears times of last year, and was written just now."""
    topic = bench.topic(0, retention_ms="-1")  # retention goes by those times
    producer = Producer(client(bench.bootstrap))
    last_year = round((time.time() - 365 * 86_400) * 1000)
    for number in range(100):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=last_year + number)
    assert producer.flush(30) == 0
    bench.commit("wanted-live", topic, {0: 100})
    length = timedelta(hours=2) if window == "2h" else timedelta(minutes=30)
    declared = TopicDeclaration(topic, "team", "groups", length, "ann", "2026-01-01")
    monkeypatch.setattr(bench, "settings", replace(bench.settings, topics=(declared,)))
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        collect(live, bench.store, now=utc_now, progress=lambda _: None)
        ahead = live.controller_time()
    assert ahead is not None and abs((utc_now() - ahead).total_seconds()) < 10
    plan = bench.plan(topic)
    assert plan.partitions[0].target_offset is None
    assert "no kept snapshot is as old as the replay window" in guards(plan)["target-unresolved"]
    assert records(bench, topic) == 100


def test_a_log_that_lost_its_end_keeps_what_it_grew_past_an_old_commit(
    kafka_jars: KafkaJars, tmp_path: Path
) -> None:
    """Another topic's leader epoch ended as well, and nothing of it was lost: it goes."""
    if kafka_jars.version.startswith("3."):
        pytest.skip(
            "before 4.0 a lone broker that was killed goes on in the leader epoch of before"
        )
    kept = {"offsets.retention.check.interval.ms": "600000"}  # as it comes
    with LocalCluster(tmp_path / "kafka", kafka_jars, brokers=1, properties=kept) as broker:
        bench = Bench(broker.bootstrap, broker.cluster_id, tmp_path / "bench", replicas=1)
        lost, whole = bench.topic(1500), bench.topic(300)
        group = f"reads-{uuid.uuid4().hex[:8]}"
        epoch = read_all(bench, group, lost, 1500)
        assert read_all(bench, group, whole, 300) == epoch >= 0, "consumers commit it"
        collected(bench)
        broker.kill_broker(1)
        first, *later = segments(broker, 1, TopicPartition(lost, 0))
        left = int(later[0].stem)
        for path in (p for file in later for p in file.parent.glob(f"{file.stem}.*")):
            path.unlink()
        broker.start_broker(1)
        assert 0 < left < 1500 and records(bench, lost) == left, first
        bench.produce(lost, 0, 1500)  # past the commit, wherever the segments rolled
        end = left + 1500

        for to in ("committed", "offset:1200", "high-watermark"):
            plan = bench.plan(lost, to=to)
            assert plan.free_partitions == ()
            reasons = [g.reason for g in plan.partitions[0].guards]
            said = f"Group {group} committed 1500 in leader epoch {epoch}, which ended at {left} in"
            assert any(said in reason for reason in reasons), reasons
            edited = replace(plan.partitions[0], guards=(), target_offset=1200)
            view = bench.apply(replace(plan, partitions=(edited,)))
            assert (view.run.state, view.partitions[0].error) == ("refused", "no-committed-offset")
        assert records(bench, lost) == end

        (found,) = collected(bench)
        assert (found["leader_epoch"], found["end_offset"]) == (epoch, left)
        healthy = bench.plan(whole)
        assert healthy.partitions[0].target_offset == 300
        assert bench.apply(healthy).run.state == "done"
        _holds_while_it_is_listed(bench, "died", bench.topic(10))
        bench.close()


def _holds_while_it_is_listed(bench: Bench, group: str, topic: str) -> None:
    """A consumer that dies before its first commit, and that no snapshot met: it reads anything."""
    bench.commit("done", topic, {0: 10})
    with reading(bench, group, topic):
        pass
    until(lambda: not _members(bench, group), 60)
    plan = bench.plan(topic)
    assert f"Group {group} may read any topic" in guards(plan)["no-committed-offset"]
    waived = bench.plan(topic, waive=[f"{group}=a trial"])
    assert "no-committed-offset" not in guards(waived)


def read_all(bench: Bench, group: str, topic: str, count: int) -> int:
    """Read so many records in the group, as any consumer does, and commit: the last one's epoch."""
    given = {"group.id": group, "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    member = Consumer(client(bench.bootstrap, **given))
    member.subscribe([topic])
    found: list[Message] = []
    until(lambda: found.extend(member.consume(500, timeout=0.5)) or len(found) >= count, 60)
    member.commit(asynchronous=False)
    member.close()
    epoch = found[-1].leader_epoch()
    assert epoch is not None
    return int(epoch)


def collected(bench: Bench) -> list[dict[str, Any]]:
    """Leader epochs that lost records, as a snapshot of now has them."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        taken = collect(live, bench.store, now=utc_now, progress=lambda _: None)
    assert taken.errors == ()
    rows: list[dict[str, Any]] = bench.store.read(
        "snapshots", taken.snapshot_id, "epoch_ends"
    ).to_pylist()
    return rows


@contextmanager
def reading(bench: Bench, group: str, name: str, **properties: str) -> Iterator[Consumer]:
    """A member of the group that is assigned what it subscribes to, and commits nothing."""
    given = {"group.id": group, "enable.auto.commit": "false", **properties}
    member = Consumer(client(bench.bootstrap, **given))
    member.subscribe([name])
    try:
        until(lambda: member.poll(0.2) is not None or bool(member.assignment()), 60)
        yield member
    finally:
        member.close()


def test_members_that_died_before_their_first_commit_are_not_forgotten_by_us(
    bench: Bench,
) -> None:
    """Kafka drops such a group with its last member; it reads from the start once it is mended."""
    name = f"crashed-{uuid.uuid4().hex[:8]}"
    topic, other = bench.topic(200), bench.topic(10)
    bench.commit(name, other, {0: 10})
    bench.commit("done", topic, {0: 200})
    with reading(bench, name, topic):
        collected(bench)
    until(lambda: not _members(bench, name), 60)
    (planned,) = bench.plan(topic).partitions
    assert [(g.name, name in g.reason) for g in planned.guards] == [("no-committed-offset", True)]
    (waived,) = bench.plan(topic, waive=[f"{name}=retired"]).partitions
    assert (waived.free, waived.target_offset) == (True, 200)


def _members(bench: Bench, name: str) -> int | None:
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        found = {g.group_id: g.members for g in live.groups(()).groups}
    return found.get(name, 0)
