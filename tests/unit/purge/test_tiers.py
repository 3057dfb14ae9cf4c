"""What lies in remote storage, what on brokers' disks, and what a purge takes of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from dashboard.cli.purge.preview import describe
from dashboard.core.errors import BrokerError
from dashboard.domain.model import (
    LogDirsAnswer,
    ReplicaSize,
    TieredOffsets,
    TopicPartition,
)
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.preview import preview, row
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.plan.tiers import Taken, Tiers, read_tiers, taken
from tests.support.cluster import FakeCluster
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, facts, partition
from tests.unit.purge.test_plan import plan_of

REMOTE = {"cleanup.policy": "delete", "remote.storage.enable": "true"}
# Of offsets 0 to 1000 the first 700 are uploaded, and disks have them from 400 on.
HALF = Tiers(400, 700, local_bytes=1800, leader_bytes=600)


class Tiered(FakeCluster):
    """Answers about tiers, or fails."""

    offsets_of_tiers: TieredOffsets | BrokerError = TieredOffsets(TOPIC, 0, 40, 70)
    asked = 0

    def tiered_offsets(
        self, partitions: Iterable[TopicPartition], *_: object
    ) -> dict[TopicPartition, TieredOffsets]:
        self.asked += 1
        if isinstance(self.offsets_of_tiers, BrokerError):
            raise self.offsets_of_tiers
        return dict.fromkeys(partitions, self.offsets_of_tiers)


@pytest.mark.parametrize(
    ("target", "takes"),
    [
        (0, Taken(0, 0, 0, 0)),
        (300, Taken(300, 0, 300, 0)),  # nothing of any disk: all of it lies remotely alone
        (400, Taken(400, 0, 400, 0)),
        (600, Taken(600, 200, 600, 600)),
        (900, Taken(700, 500, 700, 1500)),
        (1000, Taken(700, 600, 700, 1800)),
    ],
)
def test_a_target_takes_of_each_tier_what_lies_below_it(target: int, takes: Taken) -> None:
    assert taken(HALF, 0, target, 1000) == takes


def test_what_is_below_the_log_start_is_gone_from_both_already() -> None:
    assert taken(HALF, 500, 600, 1000) == Taken(100, 100, 120, 360)
    assert taken(HALF, 800, 600, 1000) == Taken(0, 0, 0, 0)


def test_unknown_stays_unknown() -> None:
    assert taken(replace(HALF, remote_end_offset=None), 0, 600, 1000) == Taken(None, 200, None, 600)
    assert taken(replace(HALF, leader_bytes=None), 0, 600, 1000) == Taken(600, 200, None, 600)
    assert taken(replace(HALF, local_bytes=None), 0, 600, 1000) == Taken(600, 200, 600, None)
    assert taken(replace(HALF, local_bytes=None), 0, 300, 1000) == Taken(300, 0, 300, 0)
    assert taken(Tiers(None, None, 1800, 600, "BROKER_UNREACHABLE"), 0, 600, 1000) is None
    assert taken(HALF, 0, None, 1000) is None
    # A log of which disks have no record tells no size of one.
    assert taken(Tiers(1000, 1000, 0, 0), 0, 600, 1000) == Taken(600, 0, None, 0)


def test_tiers_are_read_of_topics_with_remote_storage_alone() -> None:
    live = Tiered()
    states, log_dirs = live.topics(None), live.log_dirs()
    assert read_tiers(live, states, {TOPIC: {"cleanup.policy": "delete"}}, log_dirs) == {}
    assert live.asked == 0
    sizes = {r.broker_id: r.size_bytes for r in log_dirs.replicas}
    found = read_tiers(live, states, {TOPIC: REMOTE}, log_dirs)
    assert found == {KEY: Tiers(40, 70, sum(sizes.values()), sizes[1])}


def test_a_move_counts_once_and_a_silent_broker_leaves_the_sum_unknown() -> None:
    live = Tiered()
    future = ReplicaSize(1, "/e", *KEY, 7, 0, True)
    on_two = tuple(ReplicaSize(b, "/d", *KEY, 100, 0, False) for b in (1, 2))
    states, configs = live.topics(None), {TOPIC: REMOTE}
    found = read_tiers(live, states, configs, LogDirsAnswer((), (future, *on_two), {3: "X"}))
    assert found[KEY] == Tiers(40, 70, None, 100)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (TieredOffsets(TOPIC, 0, None, None, "UNSUPPORTED_VERSION"), "UNSUPPORTED_VERSION"),
        (BrokerError(1, "silent", "wait", code="BROKER_UNREACHABLE"), "BROKER_UNREACHABLE"),
    ],
)
def test_a_plan_is_made_where_nobody_tells_the_tiers(
    answer: TieredOffsets | BrokerError, error: str
) -> None:
    live = Tiered()
    live.offsets_of_tiers = answer
    found = read_tiers(live, live.topics(None), {TOPIC: REMOTE}, live.log_dirs())
    assert (found[KEY].local_start_offset, found[KEY].error) == (None, error)
    shown = describe(preview(plan(found[KEY], 60), NOW))
    assert f"Remote storage of orders: what lies there cannot be told ({error})" in shown


def plan(tiers: Tiers, target: int) -> Plan:
    remote = facts(partition(high=1000, stable=1000), configs={"remote.storage.enable": "true"})
    return plan_of(replace(remote, tiers={KEY: tiers}), {KEY: ResolvedTarget(target)})


def test_a_preview_tells_the_guard_and_what_would_go_apart() -> None:
    made = plan(HALF, 600)
    assert Plan.from_json_text(made.to_json_text(), "here") == made
    (planned,) = made.partitions
    guard = next(g for g in planned.guards if g.name == "remote-storage")
    assert "bytes" not in guard.reason, "what it comes to is the estimate's"
    assert planned.estimate is None
    assert row(planned)["tiers"] == {
        "local_start_offset": 400, "remote_end_offset": 700, "local_bytes": 1800,
        "leader_bytes": 600, "error": None,
        "takes": {"remote_records": 600, "local_records": 200, "remote_bytes": 600,
                  "local_bytes": 600},
    }  # fmt: skip
    assert (
        "Remote storage of orders: at most 600 records of it go, about 600 B if they are as large "
        "as those on disk; on brokers' disks at most 200 records go, about 600 B\n"
    ) in describe(preview(made, NOW))
    below = describe(preview(plan(HALF, 300), NOW))
    assert "the targets lie below what brokers' disks have, where nothing goes\n" in below


def test_other_topics_have_none() -> None:
    made = plan_of(facts(), {KEY: ResolvedTarget(60)})
    assert row(made.partitions[0])["tiers"] is None
    assert "tiers" not in made.to_json_text()
    assert "Remote storage" not in describe(preview(made, NOW))
