"""Whose list of groups counts, and everything that may leave one out."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse

from dashboard.cluster import group_lists
from dashboard.cluster import groups as groups_module
from dashboard.cluster.connection.connection import Connection, meet_bootstrap
from dashboard.cluster.group_members import partition_of
from dashboard.cluster.live import connect
from dashboard.domain.model import GroupListing
from tests.support.fake_broker import DROP, HANG, FakeBroker, dead_answer, topic
from tests.unit.cluster.answers import committed_answer, groups_answer, members_answer
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


def test_a_broker_that_is_known_by_its_bootstrap_address_alone_is_asked(brokers: Brokers) -> None:
    """Broker 1 is cut off since before 2 came back: it calls 2 gone, and is asked first."""
    listed_by_both(brokers)
    for number, broker in enumerate(brokers):
        broker.neighbours = []
        view(broker, broker.broker_id, epoch=4 + number)
        names(broker, coordinator=broker.broker_id)
    (reason,) = read(*brokers).incomplete
    assert "1 groups are listed by each of the brokers 1, 2, which do not agree" in reason
    brokers[0].answers[16] = lambda _, version: groups_answer(version)
    assert committed(read(*brokers)) == [90]


@pytest.mark.parametrize("moment", ["before it met", "when it met", "when it asks"])
@pytest.mark.parametrize("known_by", ["its bootstrap address", "metadata"])
def test_metadata_that_is_read_beside_a_list_takes_no_broker_from_it(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, moment: str, known_by: str
) -> None:
    """Broker 1 is cut off and calls 2 gone, which has the group; another read hears only of 1."""
    listed_by_both(brokers)
    for number, broker in enumerate(brokers):
        view(broker, broker.broker_id, epoch=4 + number)
        names(broker, coordinator=broker.broker_id)
        if known_by == "its bootstrap address":
            broker.neighbours = []
    brokers[0].answers[16] = lambda _, version: groups_answer(version)
    servers = ",".join(b.bootstrap for b in brokers[: 2 if brokers[0].neighbours == [] else 1])
    with connect({"bootstrap.servers": servers}, timedelta(seconds=60)) as live:
        shared = live._connection
        asks = Connection.ask_each

        def read_beside() -> None:
            shared.remember({1: ("127.0.0.1", brokers[0].port)})

        def meet(connection: Connection) -> list[str]:
            if moment == "before it met":
                read_beside()
            found = meet_bootstrap(connection)
            if moment == "when it met":
                read_beside()
            return found

        def ask_each(connection: Connection, questions: Any) -> Any:
            if moment == "when it asks":
                read_beside()
            return asks(connection, questions)

        monkeypatch.setattr(group_lists, "meet_bootstrap", meet)
        monkeypatch.setattr(Connection, "ask_each", ask_each)
        listing = live.groups(())
        assert (committed(listing), listing.incomplete) == ([90], ())
        assert live.alive_brokers() == (1,), "who was met for a list is alive by no metadata"


def test_a_bootstrap_address_of_another_cluster_is_left_out_and_named(brokers: Brokers) -> None:
    """Its brokers have ids of their own cluster, and its own offsets topic."""
    with FakeBroker(3) as other:
        other.cluster_id = "another"
        view(other, 3, epoch=9)
        (reason,) = read(*brokers, other).incomplete
        assert [r.API_KEY for r in other.requests] == [3]
    assert reason == (
        f"the bootstrap address {other.bootstrap} is of another cluster (another): one list of "
        "addresses may name one cluster alone"
    )


def test_a_bootstrap_address_where_nobody_is_costs_nothing(brokers: Brokers) -> None:
    with FakeBroker(3) as gone:
        pass
    assert read(*brokers, gone).incomplete == ()


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


@pytest.mark.further
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


PARTITIONS = 2
SEEN, HIDDEN = (("seen", "classic", "Empty"), ("hidden", "classic", "Empty"))


class Shared:
    """Two brokers that know at once who leads partition 1 of the offsets topic, in which epoch.

    Broker 1 always coordinates group `seen`; `hidden` is of the partition that moves or loads.
    """

    def __init__(self, brokers: Brokers) -> None:
        self.leader, self.epoch, self.active = 2, 4, True
        for broker in brokers:
            broker.answers[9] = committed_answer
            broker.answers[15] = members_answer
            broker.answers[3] = self._metadata(broker, broker._metadata)
            broker.answers[16] = self._list(broker)
            broker.probed = self._probed(broker)

    def _metadata(self, broker: FakeBroker, plain: Any) -> Any:
        def answer(request: Any, version: int) -> Any:
            seen = topic("__consumer_offsets", [1, self.leader])
            seen.partitions[1].leader_epoch = self.epoch
            broker.topics = [seen]
            return plain(request, version)

        return answer

    def _list(self, broker: FakeBroker) -> Any:
        def answer(_: Any, version: int) -> Any:
            first = (SEEN,) if broker.broker_id == 1 else ()
            second = (HIDDEN,) if broker.broker_id == self.leader and self.active else ()
            return groups_answer(version, *first, *second)

        return answer

    def _probed(self, broker: FakeBroker) -> Any:
        def answer(request: Any, version: int) -> Any:
            found = dead_answer(request, version)
            for group in found.groups:
                mine = partition_of(group.group_id, PARTITIONS) == 1
                if mine and not (broker.broker_id == self.leader and self.active):
                    group.error_code = 16
            return found

        return answer


def after(broker: FakeBroker, key: int, act: Any) -> None:
    """Once this broker has answered such a request, something happens."""
    plain: Any = broker.answers[key]

    def answer(request: Any, version: int) -> Any:
        made = plain(request, version)
        act()
        return made

    broker.answers[key] = answer


def test_a_partition_that_moves_between_two_brokers_looks_is_looked_at_again(
    brokers: Brokers,
) -> None:
    """It is in neither's list: broker 1 led it not yet, broker 2 not any more."""
    shared, looked = Shared(brokers), threading.Event()

    def move() -> None:
        shared.leader, shared.epoch = 1, 5
        looked.set()

    after(brokers[0], 60, move)  # the last question of a look
    metadata: Any = brokers[1].answers[3]

    def late(request: Any, version: int) -> Any:
        if [t.name for t in request.topics or ()] == ["__consumer_offsets"]:
            looked.wait(10)
        return metadata(request, version)

    brokers[1].answers[3] = late
    listing = read(brokers[0])
    assert [g.group_id for g in listing.groups] == ["hidden", "seen"]
    assert listing.incomplete == ()
    lists = [r for r in brokers[0].requests if r.API_KEY == 16]
    assert len(lists) == 2, "the first list lacked a group, and that was noticed"


def test_a_partition_that_keeps_moving_makes_the_list_incomplete(brokers: Brokers) -> None:
    shared = Shared(brokers)

    def move() -> None:
        shared.epoch += 1

    after(brokers[1], 16, move)
    reasons = read(*brokers).incomplete
    assert reasons == (
        "coordinators moved while groups were listed: by its own words broker 2 did not lead "
        "1 partitions of __consumer_offsets all the while",
    )


def test_a_leader_that_has_not_read_its_partition_makes_the_list_incomplete(
    brokers: Brokers,
) -> None:
    """It lists nothing of it, without an error: so does one whose load failed."""
    Shared(brokers).active = False
    listing = read(*brokers)
    assert [g.group_id for g in listing.groups] == ["seen"]
    assert listing.incomplete == (
        "broker 2 leads 1 partitions of __consumer_offsets and does not list their groups yet: "
        "NOT_COORDINATOR",
    )


def test_a_leader_that_reads_its_partition_after_it_listed_is_asked_again(
    brokers: Brokers,
) -> None:
    """By the end of that look it coordinates the partition, and its list lacked it."""
    shared = Shared(brokers)
    shared.active = False

    def read_it() -> None:
        shared.active = True

    after(brokers[1], 16, read_it)
    listing = read(*brokers)
    assert [g.group_id for g in listing.groups] == ["hidden", "seen"]
    assert listing.incomplete == ()


def test_who_may_not_ask_about_any_group_cannot_prove_coordinators(brokers: Brokers) -> None:
    Shared(brokers)
    brokers[1].probed = lambda request, version: dead_answer(request, version, error=30)
    (reason,) = read(*brokers).incomplete
    assert reason == (
        "no DESCRIBE right on groups named lowwater-probe-*: whether broker 2 has loaded "
        "1 partitions of __consumer_offsets cannot be asked; kafka-acls "
        "--bootstrap-server HOST:PORT --add --allow-principal User:NAME --operation Describe "
        "--group '*' gives it"
    )


def hides(broker: FakeBroker, error: int = 29) -> None:
    """This broker's copy of the ACLs does not let us see the offsets topic."""
    plain = broker._metadata

    def answer(request: Any, version: int) -> Any:
        made = plain(request, version)
        one = MetadataResponse.MetadataResponseTopic
        for index, found in enumerate(made.topics):
            if found.name == "__consumer_offsets":
                made.topics[index] = one(
                    error_code=error, name=found.name, partitions=[], version=version
                )
        return made

    broker.answers[3] = answer


@pytest.mark.parametrize("by", [[0], [1], [0, 1]])
def test_an_offsets_topic_that_is_hidden_from_us_makes_the_list_incomplete(
    brokers: Brokers, by: list[int]
) -> None:
    """Nothing tells then who should have listed what. Each broker judges by its own ACLs."""
    for index in by:
        hides(brokers[index])
    assert read(*brokers).incomplete == (
        "no DESCRIBE right on the topic __consumer_offsets: groups may be left out of every list "
        "unseen; kafka-acls --bootstrap-server HOST:PORT --add --allow-principal User:NAME "
        "--operation Describe --topic "
        "'__consumer_offsets' gives it",
    )


def test_a_hidden_offsets_topic_is_a_reason_though_no_group_is_listed(brokers: Brokers) -> None:
    for broker in brokers:
        hides(broker)
        broker.answers[16] = lambda _, version: groups_answer(version)
    assert "no DESCRIBE right on the topic __consumer_offsets" in read(*brokers).incomplete[0]


def test_without_an_offsets_topic_nobody_has_ever_committed(brokers: Brokers) -> None:
    """Brokers call it unknown to those alone who might see it: it is not hidden then."""
    for broker in brokers:
        broker.topics = [topic("orders", [1])]
        broker.answers[16] = lambda _, version: groups_answer(version)
    listing = read(*brokers)
    assert (listing.groups, listing.incomplete) == ((), ())
    assert all(not broker.probes for broker in brokers)


@pytest.mark.parametrize("error", [0, 5])
def test_an_offsets_topic_that_is_told_of_without_partitions_makes_the_list_incomplete(
    brokers: Brokers, error: int
) -> None:
    for broker in brokers:
        hides(broker, error)
    said = "LEADER_NOT_AVAILABLE" if error else "UNKNOWN_SERVER_ERROR"
    assert read(*brokers).incomplete == (f"__consumer_offsets cannot be read: {said}",)


def test_a_partition_that_no_view_tells_of_has_no_leader(brokers: Brokers) -> None:
    for broker in brokers:
        seen = topic("__consumer_offsets", [1, 1, 1])
        del seen.partitions[1]
        broker.topics = [seen]
    assert read(*brokers).incomplete == ("1 partitions of __consumer_offsets have no leader",)
