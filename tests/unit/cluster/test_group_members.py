"""What members of each kind of group read, decoded from the coordinators' own bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dashboard.cluster import group_members
from dashboard.cluster.group_lists import Listed
from dashboard.cluster.protocol.messages import (
    ConsumerGroupDescribeResponse,
    ConsumerProtocolAssignment,
    DescribeGroupsResponse,
    StreamsGroupDescribeResponse,
)
from dashboard.domain.model import REBALANCING, Group, TopicPartition
from dashboard.safety.readers import matching
from tests.support.fake_broker import FakeBroker, topic
from tests.unit.cluster.answers import committed_answer, groups_answer, subscription
from tests.unit.cluster.test_groups import read

Tasks = dict[str, list[int]]
Parts = dict[str, list[int]]


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(1) as one:
        one.topics = [topic("__consumer_offsets", [1]), topic("orders", [1])]
        one.versions |= {69: 1, 89: 0}
        one.answers[9] = committed_answer
        yield one


def described(broker: FakeBroker, kind: str, api: int, answer: Callable[..., Any]) -> Group:
    """The one group `g`, as the product sees it."""
    broker.answers[16] = lambda _, version: groups_answer(version, ("g", kind, "Stable"))
    broker.answers[api] = answer
    listing = read(broker)
    assert listing.incomplete == ()
    (group,) = listing.groups
    return group


def pairs(*partitions: tuple[str, int]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(*pair) for pair in partitions)


def streams_answer(
    members: list[Tasks], subtopologies: list[tuple[str, list[str], list[str]]] | None
) -> Callable[..., Any]:
    """Active tasks per member; (id, source topics, repartition source topics) each."""
    group = StreamsGroupDescribeResponse.DescribedGroup
    topology, member = group.Topology, group.Member

    def info(name: str) -> Any:
        return topology.Subtopology.TopicInfo(
            name=name, partitions=0, replication_factor=0, topic_configs=[]
        )

    def tasks(of: Tasks) -> Any:
        active = [
            member.Assignment.TaskIds(subtopology_id=i, partitions=ps) for i, ps in of.items()
        ]
        return member.Assignment(active_tasks=active, standby_tasks=[], warmup_tasks=[])

    def answer(_: Any, version: int) -> Any:
        found = [
            topology.Subtopology(
                subtopology_id=name, source_topics=sources, repartition_sink_topics=[],
                state_changelog_topics=[info("g-store-changelog")],
                repartition_source_topics=[info(t) for t in repartition],
            )
            for name, sources, repartition in subtopologies or ()
        ]  # fmt: skip
        told = topology(epoch=1, subtopologies=None if subtopologies is None else found)
        return StreamsGroupDescribeResponse(
            version=version, throttle_time_ms=0, groups=[
                group(
                    error_code=0, error_message=None, group_id="g", group_state="Stable",
                    group_epoch=2, assignment_epoch=2, topology=told, authorized_operations=0,
                    members=[
                        member(
                            member_id=str(n), member_epoch=2, instance_id=None, rack_id=None,
                            client_id="c", client_host="h", topology_epoch=1, process_id="p",
                            user_endpoint=None, client_tags=[], task_offsets=[],
                            task_end_offsets=[], assignment=tasks(of), target_assignment=tasks(of),
                            is_classic=False,
                        )
                        for n, of in enumerate(members)
                    ],
                )
            ],
        )  # fmt: skip

    return answer


def test_members_of_a_streams_group_read_the_sources_of_their_tasks(broker: FakeBroker) -> None:
    """Partition p of each source topic belongs to task p; a changelog is no source."""
    answer = streams_answer(
        [{"0": [0, 1]}, {"1": [3]}],
        [("0", ["orders", "users"], []), ("1", [], ["g-x-repartition"])],
    )
    group = described(broker, "streams", 89, answer)
    assert (group.members, group.error) == (2, None)
    assert group.assigned == pairs(
        ("g-x-repartition", 3), ("orders", 0), ("orders", 1), ("users", 0), ("users", 1)
    )
    assert group.subscribed == ("g-x-repartition", "orders", "users")
    assert group.is_streams


def test_a_streams_group_says_what_it_reads_before_any_task_is_assigned(broker: FakeBroker) -> None:
    group = described(broker, "streams", 89, streams_answer([{}], [("0", ["orders"], [])]))
    assert (group.members, group.assigned, group.subscribed) == (1, (), ("orders",))


def test_members_of_a_streams_group_that_is_not_ready_stay_unknown(broker: FakeBroker) -> None:
    """A source topic is missing, say: the broker then tells no subtopology at all."""
    group = described(broker, "streams", 89, streams_answer([{}], None))
    assert (group.members, group.error, group.topics) == (None, None, frozenset())


def consumer_answer(assigned: Parts, target: Parts, subscribed: list[str]) -> Callable[..., Any]:
    group = ConsumerGroupDescribeResponse.DescribedGroup
    member = group.Member

    def of(parts: Parts) -> Any:
        return member.Assignment(
            topic_partitions=[
                member.Assignment.TopicPartitions(topic_id=None, topic_name=t, partitions=ps)
                for t, ps in parts.items()
            ]
        )

    def answer(_: Any, version: int) -> Any:
        one = member(
            member_id="m", instance_id=None, rack_id=None, member_epoch=1, client_id="c",
            client_host="h", subscribed_topic_names=subscribed, subscribed_topic_regex="or.*",
            assignment=of(assigned), target_assignment=of(target), member_type=1, version=version,
        )  # fmt: skip
        return ConsumerGroupDescribeResponse(
            version=version, throttle_time_ms=0, groups=[
                group(
                    error_code=0, error_message=None, group_id="g", group_state="Reconciling",
                    group_epoch=2, assignment_epoch=2, assignor_name="uniform", members=[one],
                    authorized_operations=0, version=version,
                )
            ],
        )  # fmt: skip

    return answer


def test_a_consumer_on_its_way_to_a_topic_counts_as_its_reader(broker: FakeBroker) -> None:
    """By name, or by what the broker will assign to its regular expression."""
    answer = consumer_answer({"users": [0]}, {"users": [0], "orders": [1]}, ["payments"])
    group = described(broker, "consumer", 69, answer)
    assert group.assigned == pairs(("users", 0))
    assert group.topics == {"users", "orders", "payments"}


def test_the_pattern_of_a_consumer_tells_of_topics_that_nothing_was_assigned_of(
    broker: FakeBroker,
) -> None:
    group = described(broker, "consumer", 69, consumer_answer({}, {}, []))
    assert (group.patterns, group.topics) == (("or.*",), frozenset())
    assert matching(group.patterns, ("orders", "payments")) == {"orders"}


def classic_answer(
    assignment: bytes,
    protocol_type: str = "consumer",
    *,
    asks: tuple[bytes, ...] = (subscription(),),
    state: str = "Stable",
    protocol: str = "range",
    client: str = "c",
) -> Callable[..., Any]:
    """A member of this assignment for each of the subscriptions that it `asks` for."""
    group = DescribeGroupsResponse.DescribedGroup

    def answer(_: Any, version: int) -> Any:
        members = [
            group.DescribedGroupMember(
                member_id="m", group_instance_id=None, client_id=client, client_host="h",
                member_metadata=asked, member_assignment=assignment, version=version,
            )
            for asked in asks
        ]  # fmt: skip
        return DescribeGroupsResponse(
            version=version, groups=[
                group(
                    error_code=0, group_id="g", group_state=state, protocol_data=protocol,
                    protocol_type=protocol_type, members=members, authorized_operations=0,
                    version=version,
                )
            ],
        )  # fmt: skip

    return answer


def test_a_classic_groups_assignment_is_its_leaders(broker: FakeBroker) -> None:
    one = ConsumerProtocolAssignment.TopicPartition
    written = ConsumerProtocolAssignment(
        assigned_partitions=[one(topic="orders", partitions=[2, 0], version=0)],
        user_data=None, version=0,
    ).encode(version=0)  # fmt: skip
    group = described(broker, "classic", 15, classic_answer(written))
    assert (group.members, group.assigned) == (1, pairs(("orders", 0), ("orders", 2)))


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_classic_member_reads_every_topic_that_it_subscribes_to(
    broker: FakeBroker, version: int
) -> None:
    """Nothing of a topic that is made later, or of one with too few partitions, is assigned."""
    asked = subscription("orders", "users", version=version)
    group = described(broker, "classic", 15, classic_answer(b"", asks=(asked,)))
    assert (group.members, group.assigned, group.topics) == (1, (), {"orders", "users"})


def test_a_subscription_that_names_a_version_without_its_fields_is_read(
    broker: FakeBroker,
) -> None:
    """Clients have written version 1 without its owned partitions; a later one comes some day."""
    for version in (1, 9):
        asked = version.to_bytes(2, "big") + subscription("orders", version=0)[2:]
        group = described(broker, "classic", 15, classic_answer(b"", asks=(asked,)))
        assert (group.members, group.subscribed) == (1, ("orders",))


@pytest.mark.parametrize("other", [b"", b"\x00", b"\x00\x00\xff\xff\xff\xff", b"own words"])
def test_a_member_whose_subscription_is_in_other_words_may_read_any_topic(
    broker: FakeBroker, other: bytes
) -> None:
    answer = classic_answer(b"", asks=(subscription("orders"), other))
    group = described(broker, "classic", 15, answer)
    assert (group.members, group.subscribed, group.error) == (None, ("orders",), None)


def test_what_a_rebalancing_classic_group_does_not_tell_yet_is_no_word_of_its_own(
    broker: FakeBroker,
) -> None:
    answer = classic_answer(b"", asks=(b"",), state="PreparingRebalance", protocol="")
    group = described(broker, "classic", 15, answer)
    assert (group.members, group.error, group.topics) == (1, None, frozenset())
    assert group.state in REBALANCING


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "is_streams"),
    [("consumer", "stream", True), ("consumer", "range", False), ("connect", "stream", False)],
)
def test_a_classic_group_with_the_assignor_of_streams_is_an_application_of_it(
    broker: FakeBroker, protocol_type: str, protocol: str, is_streams: bool
) -> None:
    answer = classic_answer(b"", protocol_type, protocol=protocol)
    assert described(broker, "classic", 15, answer).is_streams == is_streams


@pytest.mark.parametrize(
    ("client", "is_streams"), [("app-0f3e-StreamThread-2-consumer", True), ("StreamThread", False)]
)
def test_an_application_of_streams_that_rebalances_is_known_by_its_members_names(
    broker: FakeBroker, client: str, is_streams: bool
) -> None:
    """Brokers tell no assignor then, and before its first commit nothing else shows it."""
    answer = classic_answer(
        b"", asks=(b"",), state="PreparingRebalance", protocol="", client=client
    )
    assert described(broker, "classic", 15, answer).is_streams == is_streams


def test_a_group_that_the_answer_leaves_out_has_unknown_members(broker: FakeBroker) -> None:
    broker.answers[16] = lambda _, version: groups_answer(version, ("g", "classic", "Stable"))
    broker.answers[15] = lambda _, version: DescribeGroupsResponse(version=version, groups=[])
    assert read(broker).incomplete == ("members of group g cannot be read: NOT_ANSWERED",)


@pytest.mark.parametrize(
    ("protocol", "members"), [("consumer", None), ("my-consumer", None), ("connect", 1), ("sr", 1)]
)
def test_an_assignment_in_other_words_tells_nothing_of_a_consumer(
    broker: FakeBroker, protocol: str, members: int | None
) -> None:
    """A worker of Connect reads nothing by its group; a consumer with its own assignor does, and
    what a group of another kind reads nobody can tell.
    """
    group = described(broker, "classic", 15, classic_answer(b"\x00\x07own", protocol))
    assert (group.members, group.assigned, group.error) == (members, (), None)


@pytest.mark.parametrize(
    ("protocol", "kind"),
    [("connect", "connect"), ("sr", "sr"), ("consumer", "classic"), ("my-consumer", "classic")],
)
def test_workers_are_told_from_consumers_while_they_rebalance(
    broker: FakeBroker, protocol: str, kind: str
) -> None:
    answer = classic_answer(b"", protocol, asks=(b"",), state="PreparingRebalance", protocol="")
    group = described(broker, "classic", 15, answer)
    assert (group.state, group.type) == ("PreparingRebalance", kind)


@pytest.mark.parametrize(("protocol", "works_as"), [("connect", "connect"), ("consumer", None)])
def test_workers_are_told_from_consumers_when_all_of_them_have_stopped(
    protocol: str, works_as: str | None
) -> None:
    nobody: Any = SimpleNamespace(ask_each=lambda questions: {broker: [] for broker in questions})
    listed = Listed("workers", 1, "classic", "Empty", protocol)
    (group,) = group_members.read_members(nobody, [listed]).groups.values()
    assert (group.members, group.works_as) == (0, works_as)


@given(st.binary(max_size=60))
@example(b"\x00\x00\xff\xff\xff\xff")  # a list that is null
@example(b"\x00\x00\x7f\xff\xff\xff\x00\x01x")  # one longer than its bytes
@example(b"\x00\x00\x00\x00\x00\x01\x00\x01\xff\x00\x00\x00\x00")  # a name that is no text
def test_no_member_keeps_the_other_groups_from_being_read(written: bytes) -> None:
    member = SimpleNamespace(member_assignment=written, member_metadata=written, client_id="c")
    group = SimpleNamespace(
        protocol_type="consumer", protocol_data="range", group_state="Stable", members=[member]
    )
    found = group_members._described(group)
    assert found.members in (1, None) and found.error is None
