"""After a purge: who is behind and how fast it closes, which records came back, what is said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.domain.model import ReplicaOffsets, TopicPartition
from dashboard.purge.execute.readback import read_back
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Follower, PartitionRow
from dashboard.purge.journal.tables import body_of, partition_row
from dashboard.purge.receipt.alerts import (
    arrived_said,
    behind_said,
    followers_said,
    reverted,
    reverted_said,
)
from dashboard.purge.receipt.replica_watch import Closing
from tests.support.cluster import FakeCluster
from tests.unit.purge.facts_of import KEY, NOW, TOPIC
from tests.unit.purge.room import Room
from tests.unit.purge.test_journal import insert
from tests.unit.purge.test_plan import free_plan


def row(*followers: Follower, state: str = "leader_done", number: int = 0) -> PartitionRow:
    return PartitionRow(TOPIC, number, 60, state, sent_at=NOW, followers=followers)


def behind(lag: int | None, rate: float | None = None, broker_id: int = 2) -> Follower:
    return Follower(broker_id, 0, True, False, None, lag, rate)


def test_a_rate_needs_two_reads() -> None:
    closing = Closing()
    first = closing.rated(row(behind(1000)), NOW)
    second = closing.rated(row(behind(400)), NOW + timedelta(seconds=2))
    third = closing.rated(row(behind(600)), NOW + timedelta(seconds=4))

    assert first.followers[0].closing_per_second is None
    assert second.followers[0].closing_per_second == 300
    assert second.followers[0].seconds_to_go == pytest.approx(4 / 3)
    assert third.followers[0].closing_per_second == -100
    assert third.followers[0].seconds_to_go is None


def test_a_read_without_a_lag_starts_the_rate_anew() -> None:
    closing = Closing()
    closing.rated(row(behind(1000)), NOW)
    closing.rated(row(behind(None)), NOW + timedelta(seconds=1))
    again = closing.rated(row(behind(400)), NOW + timedelta(seconds=2))

    assert again.followers[0].closing_per_second is None


def test_the_lag_is_the_leaders_log_end_minus_the_followers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live = FakeCluster()
    live.parts[KEY].starts = {1: 60, 2: 0, 3: 60}
    ends = {1: 500, 2: 120, 3: 400}
    monkeypatch.setattr(
        live,
        "replica_offsets",
        lambda _keys, _brokers: tuple(
            ReplicaOffsets(b, *KEY, live.parts[KEY].starts[b], end, NOW) for b, end in ends.items()
        ),
    )
    seen = read_back(live, {KEY: 60}, {KEY.topic: live.topic_id})[KEY]

    # Broker 3 has arrived: how far its log end is behind says nothing about this purge.
    assert [(f.broker_id, f.lag_records) for f in seen.followers] == [(2, 380), (3, None)]


def test_the_contract_carries_lag_rate_and_leader() -> None:
    body = replace(row(behind(400, 300.04)), leader_id=1).to_json()

    assert body["leader_id"] == 1
    assert body["followers"] == [
        {"broker_id": 2, "log_start_offset": 0, "behind_offsets": 60, "lag_records": 400,
         "closing_per_second": 300.0, "seconds_to_go": 1.3, "alive": True, "error": None}
    ]  # fmt: skip


def test_rows_written_before_these_fields_still_load() -> None:
    body = body_of(row(behind(400, 300)))
    del body["leader_id"]
    for name in ("lag_records", "closing_per_second"):
        del body["followers"][0][name]
    old = partition_row({"body": json.dumps(body, default=str)})  # type: ignore[arg-type]

    assert old.leader_id is None
    assert old.followers[0].lag_records is None


def test_who_is_behind_is_said_by_broker_with_rate_and_time_to_go() -> None:
    rows = [
        row(behind(1200, 300), behind(40, None, 3)),
        row(behind(600, 200), number=1),
        row(behind(9, 1), state="done", number=2),
    ]

    assert behind_said(rows) == [
        "Broker 2 is behind on 2 partitions: up to 1\u202f200 records behind, closing at 300 "
        "records/s, about 4 s to go.",
        "Broker 3 is behind on 1 partition: 40 records behind.",
    ]
    assert followers_said(rows[0]) == (
        "broker 2: 1\u202f200 records, 4 s to go; broker 3: 40 records"
    )


def test_that_followers_followed_is_said_of_partitions_whose_replicas_all_were_read_there() -> None:
    there, down = Follower(2, 60, True, True), Follower(3, None, False, False, "not read")
    followed = [row(there, state="done"), row(there, state="done", number=1)]
    others = [
        row(there, down, state="done"),
        row(state="done"),  # of one replica
        replace(row(there, state="done"), error="UNKNOWN_TOPIC_ID"),  # gone since it was read
        row(there),
    ]

    assert arrived_said(followed + others) == [
        "Followers have followed: every replica of 2 partitions starts at the target or past it."
    ]
    assert arrived_said(others) == []
    assert followers_said(followed[0]) == "none"
    assert [followers_said(each) for each in others[:2]] == ["broker 3 is down", ""]


def test_a_dead_or_unread_replica_is_told_apart() -> None:
    rows = [
        row(
            Follower(2, None, True, False, "BROKER_UNREACHABLE"),
            Follower(3, None, False, False, "not read"),
        )
    ]

    assert behind_said(rows) == [
        "Broker 2 is behind on 1 partition: it cannot be read (BROKER_UNREACHABLE).",
        "Broker 3 is down: its replicas of 1 partition delete when it is back; "
        "one that is elected as it comes back brings the records back.",
    ]


def test_what_came_back_names_topic_partitions_and_the_elected_broker() -> None:
    rows = [replace(row(state="reverted", number=n), leader_id=3) for n in range(2)] + [
        row(state="done", number=2)
    ]

    assert reverted_said(rows) == [
        f"{TOPIC}, 2 partitions: broker 3 was elected leader, and records below the target are "
        "back."
    ]


def test_the_watch_of_a_run_rates_who_is_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(tmp_path)
    room.live.answers = [7]  # the leader alone has deleted
    view = room.carry_out(watch_for_ms=3000)
    began = room.clock.now

    def closing(keys: Iterable[TopicPartition], _brokers: object) -> tuple[ReplicaOffsets, ...]:
        behind = 1000 - 100 * int((room.clock.now - began).total_seconds())
        return tuple(
            ReplicaOffsets(b, *key, start, 5000 - (0 if b == 1 else behind), NOW)
            for key in keys
            for b, start in room.live.parts[key].starts.items()
        )

    monkeypatch.setattr(room.live, "replica_offsets", closing)
    (after,) = room.watch(view).partitions
    room.journal.close()

    assert (after.state, after.leader_id) == ("leader_done", 1)
    assert [f.closing_per_second for f in after.followers] == [100, 100]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def test_a_reversal_is_an_alert_until_a_later_run_purged_it_again(journal: Journal) -> None:
    first, _ = insert(journal, free_plan())
    (planned,) = journal.partitions(first)
    journal.record(first, "watched", [replace(planned, state="reverted")], NOW)
    journal.set_run(first, "partial", NOW)
    cluster_id = journal.run(first).run.cluster_id

    assert [(a.run_id, a.topics) for a in reverted(journal, cluster_id)] == [
        (first, {planned.topic: 1})
    ]
    assert reverted(journal, "another cluster") == []

    again, _ = insert(journal, free_plan(created_by="bob"), "another click")
    assert len(reverted(journal, cluster_id)) == 1
    journal.record(again, "read", [replace(planned, state="done", sent_at=NOW)], NOW)
    assert reverted(journal, cluster_id) == []


def test_a_topic_created_again_is_another_one_and_tells_nothing(tmp_path: Path) -> None:
    """Found by the simulation, seed 83: its fresh log start looked like records that came back."""
    room = Room(tmp_path)
    view = room.carry_out()
    room.live.topic_id = "id-2"
    for part in room.live.parts.values():
        part.starts = dict.fromkeys(part.starts, 0)

    after = room.watch(view)

    assert [(row.state, row.error) for row in after.partitions] == [("done", "UNKNOWN_TOPIC_ID")]
    room.journal.close()


def test_a_lost_request_that_takes_effect_after_all_is_told(tmp_path: Path) -> None:
    """Found by the simulation, seed 92: an ex-leader that had truncated was elected again."""
    room = Room(tmp_path)
    room.live.answers = ["lost-before"] * 4
    view = room.carry_out(stop_at_least_answered=1)
    assert [row.state for row in view.partitions] == ["not_done"]
    for part in room.live.parts.values():
        part.starts = dict.fromkeys(part.starts, 60)

    after = room.watch(view)

    assert ([row.state for row in after.partitions], after.run.state) == (["done"], "done")
    room.journal.close()


def test_a_refusal_that_proves_itself_is_not_watched(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.live.answers = [44]
    view = room.carry_out()
    for part in room.live.parts.values():
        part.starts = dict.fromkeys(part.starts, 60)

    after = room.watch(view)

    assert [row.state for row in after.partitions] == ["not_done"]
    assert after.run.receipt_final
    room.journal.close()


def test_what_was_there_already_is_watched_with_the_rest(tmp_path: Path) -> None:
    """Found by the simulation, seed 39: an unclean election brought its records back."""
    room = Room(tmp_path, partitions=2)
    there = TopicPartition(TOPIC, 1)
    plan = room.plan()
    room.live.parts[there].starts = {1: 60, 2: 60, 3: 0}
    view = room.carry_out(plan)
    assert view.partitions[1].state == "leader_done" and not view.partitions[1].was_sent
    room.live.elect(3)

    after = room.watch(view)

    assert after.partitions[1].state == "reverted"
    room.journal.close()
