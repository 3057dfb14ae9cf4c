"""A coordinator whose copy of the ACLs hides a topic leaves offsets out: it is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsResponse

from dashboard.cluster import groups as groups_module
from dashboard.cluster.group_members import partition_of
from dashboard.cluster.live import connect
from dashboard.domain.model import GroupListing
from tests.support.fake_broker import DROP, VERSIONS, FakeBroker, topic
from tests.unit.cluster.answers import committed_answer, groups_answer, share_answer

SHOWN, UNKNOWN, NOT_LEADER, FORBIDDEN = 0, 3, 6, 29
AHEAD, BEHIND = (
    next(name for name in (f"g{n}" for n in range(20)) if partition_of(name, 2) == number)
    for number in (0, 1)
)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_PAUSES_SECONDS", (0.01, 0.01))


@pytest.fixture
def brokers() -> Iterator[tuple[FakeBroker, FakeBroker, FakeBroker]]:
    """Brokers 1 and 2 coordinate a group each, ahead at 90 and behind at 50; broker 3 none."""
    with FakeBroker(1) as one, FakeBroker(2) as two, FakeBroker(3) as three:
        every = (one, two, three)
        for broker in every:
            broker.neighbours = [other for other in every if other is not broker]
            broker.topics = [topic("__consumer_offsets", [1, 2]), topic("orders", [1])]
            broker.answers[2] = telling(NOT_LEADER)
            broker.answers[16] = lambda _, version: groups_answer(version)
        one.answers[2] = telling(SHOWN)
        one.answers[16] = lambda _, version: groups_answer(version, (AHEAD, "classic", "Empty"))
        two.answers[16] = lambda _, version: groups_answer(version, (BEHIND, "classic", "Empty"))
        one.answers[9] = lambda request, version: committed_answer(request, version, offset=90)
        two.answers[9] = committed_answer
        yield every


def telling(*codes: int, of: str = "orders", default: int = SHOWN) -> Callable[[Any, int], Any]:
    """ListOffsets that answers `codes` of topic `of`, one after the other and the last for good."""
    left = list(codes)

    def answer(request: Any, version: int) -> Any:
        one = ListOffsetsResponse.ListOffsetsTopicResponse
        part = one.ListOffsetsPartitionResponse
        code = left.pop(0) if len(left) > 1 else left[0]
        topics = [
            one(
                name=asked.name, version=version,
                partitions=[part(
                    partition_index=0, error_code=code if asked.name == of else default,
                    timestamp=-1, offset=0, leader_epoch=4, version=version,
                )],
            )
            for asked in request.topics
        ]  # fmt: skip
        return ListOffsetsResponse(version=version, topics=topics)

    return answer


def hide(broker: FakeBroker, *codes: int) -> None:
    """OffsetFetch without what is committed on orders, as by KafkaApis: no error is left."""
    broker.answers[2] = telling(*codes)
    broker.answers[9] = lambda request, version: committed_answer(request, version, offset=-2)


def read(brokers: tuple[FakeBroker, ...], *topics: str) -> GroupListing:
    servers = ",".join(broker.bootstrap for broker in brokers)
    with connect({"bootstrap.servers": servers}, timedelta(seconds=60)) as live:
        return live.groups(topics or ("orders",))


def test_topics_that_every_coordinator_shows_leave_no_doubt(
    brokers: tuple[FakeBroker, ...],
) -> None:
    listing = read(brokers)

    assert {o.group_id: o.committed_offset for o in listing.offsets} == {AHEAD: 90, BEHIND: 50}
    assert listing.incomplete == ()


def test_a_coordinator_that_hides_the_topic_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, ...],
) -> None:
    hide(brokers[1], FORBIDDEN)

    listing = read(brokers)

    assert [(o.group_id, o.committed_offset) for o in listing.offsets] == [(AHEAD, 90)]
    (reason,) = listing.incomplete
    assert reason.startswith("no DESCRIBE right at broker 2, by its own copy of the ACLs")
    assert "the topic orders" in reason
    assert "--operation Describe --topic 'orders'" in reason


def test_a_right_that_arrives_while_groups_are_listed_is_waited_for(
    brokers: tuple[FakeBroker, ...],
) -> None:
    brokers[1].answers[2] = telling(FORBIDDEN, NOT_LEADER)

    assert read(brokers).incomplete == ()
    assert sum(r.API_KEY == 9 for r in brokers[1].requests) == 2


@pytest.mark.parametrize("before", [FORBIDDEN, NOT_LEADER])
def test_a_right_counts_that_was_there_before_the_offsets_and_after_them(
    brokers: tuple[FakeBroker, ...], before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_module, "_PAUSES_SECONDS", ())
    brokers[1].answers[2] = telling(before, NOT_LEADER + FORBIDDEN - before)

    assert "no DESCRIBE right at broker 2" in read(brokers).incomplete[0]


def test_a_coordinator_that_does_not_know_a_new_topic_hides_it_too(
    brokers: tuple[FakeBroker, ...],
) -> None:
    hide(brokers[1], UNKNOWN)

    (reason,) = read(brokers).incomplete
    assert reason.startswith("broker 2 does not know what others know")


def test_only_brokers_that_coordinate_nothing_may_know_it(
    brokers: tuple[FakeBroker, ...],
) -> None:
    hide(brokers[0], UNKNOWN)
    hide(brokers[1], UNKNOWN)

    assert [reason.split(" does")[0] for reason in read(brokers).incomplete] == [
        "broker 1", "broker 2",
    ]  # fmt: skip


def test_a_topic_that_nobody_knows_any_more_hides_nothing(
    brokers: tuple[FakeBroker, ...],
) -> None:
    for broker in brokers:
        broker.answers[2] = telling(UNKNOWN)

    assert read(brokers, "orders", "payments").incomplete == ()


def test_what_a_broker_without_groups_hides_is_no_matter(brokers: tuple[FakeBroker, ...]) -> None:
    brokers[2].answers[2] = telling(FORBIDDEN)

    assert read(brokers).incomplete == ()


def test_a_coordinator_that_does_not_tell_what_it_hides_is_doubted(
    brokers: tuple[FakeBroker, ...],
) -> None:
    brokers[1].answers[2] = DROP

    (reason,) = read(brokers).incomplete
    assert reason == "whether broker 2 hides topics cannot be told: ANSWER_LOST"


def test_an_answer_that_leaves_the_topic_out_proves_nothing(
    brokers: tuple[FakeBroker, ...],
) -> None:
    brokers[1].answers[2] = lambda _, version: ListOffsetsResponse(version=version, topics=[])

    assert "broker 2 does not tell what it shows" in read(brokers).incomplete[0]


def test_many_hidden_topics_are_one_reason(brokers: tuple[FakeBroker, ...]) -> None:
    brokers[1].answers[2] = telling(FORBIDDEN, of="", default=FORBIDDEN)

    (reason,) = read(brokers, *"edcba").incomplete
    assert "of the topics a, b, c and 2 more is left out" in reason
    assert "--topic '*'" in reason


def test_one_row_a_topic_is_asked_of_coordinators_alone(brokers: tuple[FakeBroker, ...]) -> None:
    read(brokers, "orders", "payments")

    asked = [[r for r in b.requests if r.API_KEY == 2] for b in brokers]
    assert [len(of_one) for of_one in asked] == [2, 2, 0]  # before and after
    assert [(t.name, len(t.partitions)) for t in asked[1][0].topics] == [
        ("orders", 1), ("payments", 1),
    ]  # fmt: skip


def test_a_share_groups_hidden_start_offsets_are_doubted_too() -> None:
    with FakeBroker(1, VERSIONS | {90: 0}) as broker:
        broker.topics = [topic("__consumer_offsets", [1]), topic("orders", [1])]
        broker.answers[16] = lambda _, version: groups_answer(version, ("s", "share", "Empty"))
        broker.answers[90] = share_answer
        broker.answers[2] = telling(FORBIDDEN)

        assert "no DESCRIBE right at broker 1" in read((broker,)).incomplete[0]
