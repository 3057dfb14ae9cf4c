"""All groups, batched; and every reason for which the list may be incomplete is said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterResponse

from dashboard.cluster import groups as groups_module
from dashboard.cluster.live import connect
from dashboard.model import GroupListing
from tests.unit.cluster.answers import committed_answer, groups_answer, members_answer
from tests.unit.cluster.fake_broker import HANG, FakeBroker, topic


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_PAUSES_SECONDS", (0.01, 0.01))


@pytest.fixture
def brokers() -> Iterator[tuple[FakeBroker, FakeBroker]]:
    """Broker 1 leads the offsets topic's two partitions, broker 2 leads none."""
    with FakeBroker(1) as one, FakeBroker(2) as other:
        one.neighbours, other.neighbours = [other], [one]
        one.topics = other.topics = [topic("__consumer_offsets", [1, 1]), topic("orders", [1])]
        listed = [("billing", "classic", "Stable"), ("old", "consumer", "Empty")]
        one.answers[16] = lambda _, version: groups_answer(version, *listed)
        other.answers[16] = lambda _, version: groups_answer(version)
        for broker in (one, other):
            broker.answers[15] = members_answer
            broker.answers[9] = committed_answer
        yield one, other


def read(*brokers: FakeBroker, seconds: float = 1) -> GroupListing:
    servers = ",".join(broker.bootstrap for broker in brokers)
    with connect({"bootstrap.servers": servers}, timedelta(seconds=seconds)) as live:
        return live.groups()


def test_groups_with_and_without_members_come_with_their_offsets(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    listing = read(*brokers)
    assert [(g.group_id, g.type, g.state, g.members) for g in listing.groups] == [
        ("billing", "classic", "Stable", 1),
        ("old", "consumer", "Empty", 0),
    ]
    assert [(o.group_id, o.topic, o.committed_offset) for o in listing.offsets] == [
        ("billing", "orders", 50),
        ("old", "orders", 50),
    ]
    assert listing.incomplete == ()


def test_offsets_of_all_groups_travel_in_one_stable_request(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    read(*brokers)
    sent = [r for r in brokers[0].requests if r.API_KEY == 9]
    assert len(sent) == 1
    assert sent[0].require_stable is True
    assert [g.group_id for g in sent[0].groups] == ["billing", "old"]
    assert all(g.topics is None for g in sent[0].groups)


def test_list_groups_filters_nothing(brokers: tuple[FakeBroker, FakeBroker]) -> None:
    read(*brokers)
    sent = [r for b in brokers for r in b.requests if r.API_KEY == 16]
    assert len(sent) == 2
    assert all(not r.states_filter and not r.types_filter for r in sent)


def test_missing_describe_right_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    def without(_: Any, version: int) -> Any:
        return DescribeClusterResponse(
            version=version, error_code=0, cluster_id="fake", brokers=[],
            controller_id=1, endpoint_type=1, error_message=None, authorized_operations=set(),
        )  # fmt: skip

    for broker in brokers:
        broker.answers[60] = without
    assert "no DESCRIBE right" in read(*brokers).incomplete[0]


def test_a_silent_coordinator_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    brokers[0].answers[16] = HANG
    listing = read(*brokers, seconds=0.4)
    assert any("broker 1 did not answer; it leads 2" in r for r in listing.incomplete)


def test_a_silent_broker_that_leads_no_coordinator_partition_holds_no_group(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    brokers[1].answers[16] = HANG
    assert read(*brokers, seconds=0.4).incomplete == ()


def test_a_coordinator_partition_without_leader_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    for broker in brokers:
        broker.topics = [topic("__consumer_offsets", [1, -1])]
    assert read(*brokers).incomplete == ("1 partitions of __consumer_offsets have no leader",)


def test_a_loading_coordinator_is_asked_again(brokers: tuple[FakeBroker, FakeBroker]) -> None:
    errors = [14]

    def loading_once(_: Any, version: int) -> Any:
        error = errors.pop() if errors else 0
        return groups_answer(version, ("billing", "classic", "Stable"), error=error)

    brokers[0].answers[16] = loading_once
    assert read(*brokers).incomplete == ()


def test_a_coordinator_that_keeps_loading_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    brokers[0].answers[16] = lambda _, version: groups_answer(version, error=14)
    reasons = read(*brokers).incomplete
    assert reasons == ("broker 1 did not list its groups: COORDINATOR_LOAD_IN_PROGRESS",)


def test_a_refused_offset_fetch_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    brokers[0].answers[9] = lambda request, version: committed_answer(
        request, version, group_error=30
    )
    listing = read(*brokers)
    assert listing.incomplete[0] == (
        "offsets of group billing cannot be read: GROUP_AUTHORIZATION_FAILED"
    )
    assert listing.groups[0].error == "GROUP_AUTHORIZATION_FAILED"
    assert not listing.groups[0].coordinator_answered


def test_an_unstable_offset_is_unknown_and_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    brokers[0].answers[9] = lambda request, version: committed_answer(
        request, version, partition_error=88
    )
    listing = read(*brokers)
    assert listing.offsets[0].committed_offset is None
    assert listing.offsets[0].error == "UNSTABLE_OFFSET_COMMIT"
    assert "offset of group billing on orders-0" in listing.incomplete[0]


def test_a_partition_without_a_commit_is_none(brokers: tuple[FakeBroker, FakeBroker]) -> None:
    brokers[0].answers[9] = lambda request, version: committed_answer(request, version, offset=-1)
    listing = read(*brokers)
    assert {o.committed_offset for o in listing.offsets} == {None}
    assert listing.incomplete == ()


def test_a_group_that_ended_meanwhile_is_left_out(brokers: tuple[FakeBroker, FakeBroker]) -> None:
    brokers[0].answers[9] = lambda request, version: committed_answer(
        request, version, group_error=69
    )
    listing = read(*brokers)
    assert listing.groups == ()
    assert listing.incomplete == ()


def test_a_cluster_without_the_offsets_topic_has_no_groups(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    for broker in brokers:
        broker.topics = [topic("orders", [1])]
        broker.answers[16] = lambda _, version: groups_answer(version)
    listing = read(*brokers)
    assert listing == GroupListing((), (), ())


def test_coordinators_that_move_while_listing_are_listed_again(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    moves = [1]

    def moving(_: Any, version: int) -> Any:
        if moves:
            moves.pop()
            for broker in brokers:
                broker.topics = [topic("__consumer_offsets", [1, 2])]
        return groups_answer(version, ("billing", "classic", "Stable"))

    brokers[0].answers[16] = moving
    listing = read(*brokers)
    assert listing.incomplete == ()
    assert len([r for r in brokers[0].requests if r.API_KEY == 16]) == 2


def test_share_groups_are_listed_but_not_asked_for_commits(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    brokers[0].answers[16] = lambda _, version: groups_answer(
        version, ("sharing", "share", "Empty"), ("streaming", "streams", "Stable")
    )
    listing = read(*brokers)
    assert [(g.group_id, g.type, g.members) for g in listing.groups] == [
        ("sharing", "share", 0),
        ("streaming", "streams", None),
    ]
    assert {o.group_id for o in listing.offsets} == {"streaming"}
