"""Whose list of groups counts, and everything that may leave one out."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import FindCoordinatorResponse

from dashboard.cluster import groups as groups_module
from dashboard.model import GroupListing
from tests.unit.cluster.answers import committed_answer, groups_answer, members_answer
from tests.unit.cluster.fake_broker import DROP, HANG, FakeBroker, topic
from tests.unit.cluster.test_groups import brokers, read

__all__ = ["brokers"]
Brokers = tuple[FakeBroker, FakeBroker]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_PAUSES_SECONDS", (0.01, 0.01))


def view(broker: FakeBroker, leader: int, epoch: int = 4) -> None:
    """This broker says that `leader` leads the offsets topic's one partition."""
    seen = topic("__consumer_offsets", [leader])
    seen.partitions[0].leader_epoch = epoch
    broker.topics = [seen]


def names(broker: FakeBroker, *, coordinator: int, error: int = 0) -> None:
    """This broker calls `coordinator` the coordinator of every group."""
    broker.versions[10] = 4

    def answer(request: Any, version: int) -> Any:
        one = FindCoordinatorResponse.Coordinator
        found = [
            one(
                key=key, node_id=coordinator, host="h", port=1, error_code=error,
                error_message=None, version=version,
            )
            for key in request.coordinator_keys
        ]  # fmt: skip
        return FindCoordinatorResponse(version=version, coordinators=found)

    broker.answers[10] = answer


def listed_by_both(brokers: Brokers) -> None:
    """Group g is listed by both; broker 1 has it at offset 10, broker 2 at 90."""
    for broker, offset in zip(brokers, (10, 90), strict=True):
        broker.answers[16] = lambda _, version: groups_answer(version, ("g", "classic", "Stable"))
        broker.answers[15] = members_answer
        broker.answers[9] = lambda request, version, offset=offset: committed_answer(
            request, version, offset=offset
        )


def committed(listing: GroupListing) -> list[int | None]:
    return [o.committed_offset for o in listing.offsets]


@pytest.mark.parametrize("real", [1, 2])
def test_of_two_lists_the_coordinators_counts_whatever_its_id(brokers: Brokers, real: int) -> None:
    listed_by_both(brokers)
    for broker in brokers:
        names(broker, coordinator=real)
    listing = read(*brokers)
    assert committed(listing) == [10 if real == 1 else 90]
    assert listing.incomplete == ()


@pytest.mark.parametrize("cut_off", [0, 1])
def test_a_broker_that_is_cut_off_and_still_coordinates_a_group_makes_the_list_incomplete(
    brokers: Brokers, cut_off: int
) -> None:
    """Each calls itself the leader of the offsets topic; the newer leader epoch is no proof."""
    listed_by_both(brokers)
    for number, broker in enumerate(brokers):
        view(broker, broker.broker_id, epoch=4 if number == cut_off else 5)
        names(broker, coordinator=broker.broker_id)
    (reason,) = read(*brokers).incomplete
    assert "1 groups are listed by each of the brokers 1, 2, which do not agree" in reason


@pytest.mark.parametrize("how", ["an error", "no answer", "an old version"])
def test_a_group_listed_twice_whose_coordinator_nobody_names_makes_the_list_incomplete(
    brokers: Brokers, how: str
) -> None:
    listed_by_both(brokers)
    names(brokers[0], coordinator=1)
    names(brokers[1], coordinator=1, error=15 if how == "an error" else 0)
    if how == "no answer":
        brokers[1].answers[10] = DROP
    elif how == "an old version":
        brokers[1].versions[10] = 3
    assert any("do not agree" in reason for reason in read(*brokers).incomplete)


def test_the_coordinator_that_another_brokers_newer_view_names_has_to_answer(
    brokers: Brokers,
) -> None:
    """Broker 1 is cut off, names itself, and is asked first; 2 leads and is silent to us."""
    with FakeBroker(3) as third:
        brokers[0].neighbours = [brokers[1], third]
        third.neighbours = list(brokers)
        view(brokers[0], 1, epoch=4)
        view(third, 2, epoch=5)
        third.answers[16] = lambda _, version: groups_answer(version)
        brokers[1].answers[3] = HANG
        reasons = read(brokers[0], seconds=3).incomplete
    assert reasons == ("broker 2 did not answer; it leads 1 partitions of __consumer_offsets",)


def test_two_leaders_of_one_epoch_both_have_to_answer(brokers: Brokers) -> None:
    """Brokers before 2.1 tell no leader epoch."""
    view(brokers[0], 1, epoch=-1)
    view(brokers[1], 3, epoch=-1)
    reasons = read(*brokers).incomplete
    assert reasons == ("broker 3 did not answer; it leads 1 partitions of __consumer_offsets",)


def test_groups_that_are_listed_though_no_broker_knows_the_offsets_topic(brokers: Brokers) -> None:
    for broker in brokers:
        broker.topics = [topic("orders", [1])]
    reasons = read(*brokers).incomplete
    assert reasons == ("groups are listed, and no broker knows __consumer_offsets",)


def test_a_silent_broker_may_know_of_groups_where_no_other_knows_the_offsets_topic(
    brokers: Brokers,
) -> None:
    for broker in brokers:
        broker.topics = [topic("orders", [1])]
    brokers[0].answers[16] = HANG
    reasons = read(*brokers, seconds=3).incomplete
    assert reasons == (
        "broker 1 did not answer, and __consumer_offsets is not known to the others",
    )


@pytest.mark.parametrize("error", [0, 35])
def test_brokers_that_do_not_tell_our_rights_may_leave_groups_out(
    brokers: Brokers, error: int
) -> None:
    def silent_of_rights(_: Any, version: int) -> Any:
        return DescribeClusterResponse(
            version=version, error_code=error, cluster_id="fake", brokers=[], controller_id=1,
            endpoint_type=1, error_message=None, authorized_operations={8} if error else None,
        )  # fmt: skip

    brokers[1].answers[60] = silent_of_rights
    (reason,) = read(*brokers).incomplete
    assert reason.startswith("brokers do not tell whether we hold DESCRIBE on the cluster")


def test_brokers_that_do_not_speak_describe_cluster_may_leave_groups_out(brokers: Brokers) -> None:
    for broker in brokers:
        del broker.versions[60]
    (reason,) = read(*brokers).incomplete
    assert reason.startswith("brokers do not tell whether we hold DESCRIBE on the cluster")


def test_a_right_that_one_broker_denies_is_missing(brokers: Brokers) -> None:
    """Each judges by its own copy of the ACLs, and leaves groups out by it."""

    def without(_: Any, version: int) -> Any:
        return DescribeClusterResponse(
            version=version, error_code=0, cluster_id="fake", brokers=[], controller_id=1,
            endpoint_type=1, error_message=None, authorized_operations=set(),
        )  # fmt: skip

    brokers[1].answers[60] = without
    assert read(*brokers).incomplete == (
        "no DESCRIBE right on the cluster: groups may be left out of every list",
    )
