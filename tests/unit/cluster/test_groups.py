"""All groups, batched; and every reason for which the list may be incomplete is said."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from datetime import timedelta
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterResponse
from kafka.protocol.consumer import OffsetFetchResponse

from dashboard.cluster import group_offsets
from dashboard.cluster import groups as groups_module
from dashboard.cluster.live import connect
from dashboard.cluster.protocol.messages import DescribeQuorumRequest, DescribeQuorumResponse
from dashboard.domain.model import GroupListing
from tests.support import fake_broker
from tests.support.fake_broker import HANG, FakeBroker, topic
from tests.unit.cluster.answers import (
    committed_answer,
    groups_answer,
    members_answer,
    share_answer,
)
from tests.unit.cluster.test_controller_clock import QUORUM, quorum


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "_PAUSES_SECONDS", (0.01, 0.01))
    monkeypatch.setattr(group_offsets, "_PAUSES_SECONDS", (0.01, 0.01))


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


def read(*brokers: FakeBroker, seconds: float = 60) -> GroupListing:
    servers = ",".join(broker.bootstrap for broker in brokers)
    with connect({"bootstrap.servers": servers}, timedelta(seconds=60)) as live:
        live._connection.timeout_seconds = seconds
        return live.groups(())


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


@pytest.mark.parametrize("change", ["arrives", "goes"])
def test_a_right_that_changes_while_groups_are_listed_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker], change: str
) -> None:
    """The list of a broker without it leaves groups out, and says no word of it."""
    rights = [8] if change == "goes" else []

    def listed(_: Any, version: int) -> Any:
        rights[:] = [] if change == "goes" else [8]
        return groups_answer(version)

    def described(_: Any, version: int) -> Any:
        return DescribeClusterResponse(
            version=version, error_code=0, cluster_id="fake", brokers=[], controller_id=1,
            endpoint_type=1, error_message=None, authorized_operations=set(rights),
        )  # fmt: skip

    brokers[1].answers[16], brokers[1].answers[60] = listed, described
    (reason,) = read(*brokers).incomplete
    assert reason.startswith("no DESCRIBE right on the cluster")


def test_a_silent_coordinator_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    brokers[0].answers[16] = HANG
    listing = read(*brokers, seconds=3)
    assert any("broker 1 did not answer; it leads 2" in r for r in listing.incomplete)


@pytest.mark.further_but("behind")
@pytest.mark.parametrize("end", [5, 4, None], ids=["caught up", "behind", "ZooKeeper"])
def test_a_silent_broker_holds_no_group_if_one_that_is_in_touch_with_the_controllers_says_so(
    brokers: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch, end: int | None
) -> None:
    """Else all that answer may be cut off together with us, and it may have taken over."""
    monkeypatch.setitem(fake_broker.PAIRS, QUORUM, (DescribeQuorumRequest, DescribeQuorumResponse))
    brokers[1].answers[16] = HANG
    if end is not None:
        brokers[0].versions[QUORUM] = 1
        brokers[0].answers[QUORUM] = lambda _, version: quorum(version, end=end)

    incomplete = read(*brokers, seconds=1).incomplete

    told = [reason for reason in incomplete if "it may coordinate groups by now" in reason]
    assert list(incomplete) == told
    assert bool(told) == (end != 5)


@pytest.mark.parametrize("end", [5, 4, None], ids=["caught up", "behind", "ZooKeeper"])
def test_a_replica_that_is_gone_may_lead_the_offsets_topic_unless_controllers_say_no(
    brokers: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch, end: int | None
) -> None:
    """The ISR had shrunk, and it is elected as it comes back (KIP-966); ZooKeeper does not."""
    monkeypatch.setitem(fake_broker.PAIRS, QUORUM, (DescribeQuorumRequest, DescribeQuorumResponse))
    for broker in brokers:
        for partition in broker.topics[0].partitions:
            partition.replica_nodes, partition.isr_nodes = [1, 3], [1]
        if end is not None:
            broker.versions[QUORUM] = 1
            broker.answers[QUORUM] = lambda _, v, at=broker.broker_id: quorum(
                v, end=end or 0, replica=at
            )

    incomplete = read(*brokers, seconds=2).incomplete

    assert [r.partition(" did")[0] for r in incomplete] == (["broker 3"] if end == 4 else [])


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


@pytest.mark.parametrize("error", [14, 15, 16])
def test_members_that_a_coordinator_cannot_tell_yet_are_asked_for_again(
    brokers: tuple[FakeBroker, FakeBroker], error: int
) -> None:
    """It answers OffsetFetch a moment later; a group without commits would be nobody's reader."""
    errors = [error]

    def loading_once(request: Any, version: int) -> Any:
        return members_answer(request, version, error=errors.pop() if errors else 0)

    brokers[0].answers[15] = loading_once
    listing = read(*brokers)
    assert (listing.groups[0].members, listing.incomplete) == (1, ())


@pytest.mark.parametrize(
    ("error", "name"), [(14, "COORDINATOR_LOAD_IN_PROGRESS"), (30, "GROUP_AUTHORIZATION_FAILED")]
)
def test_members_that_cannot_be_read_make_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker], error: int, name: str
) -> None:
    brokers[0].answers[15] = lambda request, version: members_answer(request, version, error=error)
    listing = read(*brokers)
    assert listing.incomplete == (f"members of group billing cannot be read: {name}",)
    assert (listing.groups[0].members, listing.groups[0].error) == (None, name)


def test_a_group_of_which_nothing_can_be_read_gives_one_reason(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    brokers[0].answers[15] = lambda request, version: members_answer(request, version, error=30)
    brokers[0].answers[9] = lambda request, version: committed_answer(
        request, version, group_error=30
    )
    reasons = [r for r in read(*brokers).incomplete if "billing" in r]
    assert reasons == ["offsets of group billing cannot be read: GROUP_AUTHORIZATION_FAILED"]


def test_a_kind_of_group_that_cannot_be_described_hides_no_other_kind(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    """Its own members are unknown, which nothing cures: they are judged by their offsets."""
    brokers[0].answers[16] = lambda _, version: groups_answer(
        version,
        ("billing", "classic", "Stable"),
        ("newer", "consumer", "Stable"),
        ("sharing", "share", "Stable"),
    )
    listing = read(*brokers)
    assert [(g.group_id, g.members, g.error) for g in listing.groups] == [
        ("billing", 1, None),
        ("newer", None, "API_UNSUPPORTED"),
        ("sharing", None, "API_UNSUPPORTED"),
    ]
    assert listing.incomplete == ()


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


def test_groups_that_commit_in_transactions_all_the_time_are_all_read_in_the_end(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    """At every moment one of them has a transaction open: no look finds both without."""
    looks = 0

    def one_open(request: Any, version: int) -> Any:
        nonlocal looks
        moving = ("billing", "old")[looks % 2]
        looks += 1
        answer = committed_answer(request, version)
        for group in answer.groups:
            group.topics[0].partitions[0].error_code = 88 * (group.group_id == moving)
        return answer

    brokers[0].answers[9] = one_open
    listing = read(*brokers)
    assert [(o.group_id, o.committed_offset, o.error) for o in listing.offsets] == [
        ("billing", 50, None),
        ("old", 50, None),
    ]
    assert listing.incomplete == ()
    asked = [[g.group_id for g in r.groups] for r in brokers[0].requests if r.API_KEY == 9]
    assert asked == [["billing", "old"], ["billing"]], "those that told are asked no more"


def test_an_offset_that_goes_back_or_away_while_another_one_is_waited_for_counts(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    """One instance begins anew while the transaction of another is open; one that came on stays.

    Of what was deleted no answer tells.
    """
    looks = 0

    def moved(request: Any, version: int) -> Any:
        nonlocal looks
        looks += 1
        answer = committed_answer(request, version)
        for group in answer.groups:
            (first,) = group.topics[0].partitions
            for number, offset in ((1, 100 if looks == 1 else 10), (2, 100 * looks), (3, 7)):
                if (number, looks) == (3, 2):
                    continue
                other = copy(first)
                other.partition_index, other.committed_offset = number, offset
                group.topics[0].partitions.append(other)
            first.error_code = 88 * (looks == 1)
        return answer

    brokers[0].answers[9] = moved
    offsets = [(o.group_id, o.partition, o.committed_offset) for o in read(*brokers).offsets]
    told = [(0, 50), (1, 10), (2, 100), (3, None)]
    assert offsets == [(group, *one) for group in ("billing", "old") for one in told]


def test_an_offset_that_one_look_does_not_show_is_told_by_the_next(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    """Deleted and committed anew within the second, or hidden for a moment."""
    looks = 0

    def gone_for_a_moment(request: Any, version: int) -> Any:
        nonlocal looks
        looks += 1
        answer = committed_answer(request, version)
        for group in answer.groups:
            (first,) = group.topics[0].partitions
            other = copy(first)
            other.partition_index, other.committed_offset = 1, 100 if looks == 1 else 40
            if looks != 2:
                group.topics[0].partitions.append(other)
            first.error_code = 88 * (looks < 3)
        return answer

    brokers[0].answers[9] = gone_for_a_moment
    offsets = [(o.group_id, o.partition, o.committed_offset) for o in read(*brokers).offsets]
    assert offsets == [(g, n, at) for g in ("billing", "old") for n, at in ((0, 50), (1, 40))]


def test_a_first_commit_that_shows_while_another_one_is_waited_for_is_kept(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    """No answer has it while its transaction is open, not even as unstable."""
    looks = 0

    def committed_meanwhile(request: Any, version: int) -> Any:
        nonlocal looks
        looks += 1
        answer = committed_answer(request, version, partition_error=88 * (looks == 1))
        if looks > 1:
            for group in answer.groups:
                first = replace_number(group.topics[0].partitions[0])
                group.topics[0].partitions.append(first)
        return answer

    def replace_number(partition: Any) -> Any:
        made = copy(partition)
        made.partition_index, made.committed_offset = 1, 5
        return made

    brokers[0].answers[9] = committed_meanwhile
    found = {(o.group_id, o.partition): o.committed_offset for o in read(*brokers).offsets}
    assert found == {("billing", 0): 50, ("billing", 1): 5, ("old", 0): 50, ("old", 1): 5}


@pytest.mark.parametrize("group_error", [69, 16])
def test_one_that_is_gone_or_moves_while_its_transaction_is_waited_for_is_asked_of_anew(
    brokers: tuple[FakeBroker, FakeBroker], group_error: int
) -> None:
    looks: list[list[str]] = []

    def answer(request: Any, version: int) -> Any:
        looks.append([g.group_id for g in request.groups])
        if len(looks) == 1:
            return committed_answer(request, version, partition_error=88)
        error = group_error if len(looks) < 4 else 0
        return committed_answer(request, version, group_error=error)

    brokers[0].answers[9] = answer
    listing = read(*brokers)
    assert looks == [["billing", "old"]] * 4, "three of the first list, and one of the second"
    assert [o.error for o in listing.offsets] == [None, None]
    assert listing.incomplete == ()


def test_a_partition_without_a_commit_is_none(brokers: tuple[FakeBroker, FakeBroker]) -> None:
    brokers[0].answers[9] = lambda request, version: committed_answer(request, version, offset=-1)
    listing = read(*brokers)
    assert {o.committed_offset for o in listing.offsets} == {None}
    assert listing.incomplete == ()


def ends(broker: FakeBroker, kind: str) -> None:
    """Group g of this kind is listed once, and never again."""
    states = ["Stable"]
    broker.answers[16] = lambda _, version: groups_answer(
        version, *(("g", kind, states.pop()) for _ in states[:])
    )


def test_a_group_that_ended_meanwhile_is_left_out(brokers: tuple[FakeBroker, FakeBroker]) -> None:
    ends(brokers[0], "classic")
    brokers[0].answers[9] = lambda request, version: committed_answer(
        request, version, group_error=69
    )
    assert read(*brokers) == GroupListing((), ())


@pytest.mark.parametrize("error", [0, 69])  # v6 gives a dead group an error
def test_a_group_that_died_before_it_was_described_is_left_out_without_offsets(
    brokers: tuple[FakeBroker, FakeBroker], error: int
) -> None:
    ends(brokers[0], "classic")
    brokers[0].answers[15] = lambda request, version: members_answer(
        request, version, error=error, state="Dead"
    )
    brokers[0].answers[9] = lambda request, version: committed_answer(request, version, offset=-2)
    assert read(*brokers) == GroupListing((), ())


@pytest.mark.parametrize("offset", [50, -2])
def test_a_group_that_changes_its_protocol_is_listed_again(
    brokers: tuple[FakeBroker, FakeBroker], offset: int
) -> None:
    """Asked as what it was, it is Dead; its offsets and its members live on as another kind."""
    kinds = ["consumer", "consumer", "classic"]
    brokers[0].answers[16] = lambda _, version: groups_answer(
        version, ("g", kinds.pop() if kinds else "consumer", "Stable")
    )
    brokers[0].answers[15] = lambda request, version: members_answer(request, version, state="Dead")
    brokers[0].answers[9] = lambda request, version: committed_answer(
        request, version, offset=offset
    )
    listing = read(*brokers)
    assert [(g.group_id, g.type) for g in listing.groups] == [("g", "consumer")]
    assert len(listing.offsets) == (offset > 0)
    assert listing.incomplete == ()


@pytest.mark.parametrize("offset", [50, -2])
def test_a_group_that_is_called_dead_and_listed_all_the_same_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker], offset: int
) -> None:
    brokers[0].answers[15] = lambda request, version: members_answer(request, version, state="Dead")
    brokers[0].answers[9] = lambda request, version: committed_answer(
        request, version, offset=offset
    )
    listing = read(*brokers)
    assert [(g.group_id, g.members) for g in listing.groups] == [("billing", None), ("old", 0)]
    assert len(listing.offsets) == (2 if offset > 0 else 0)
    assert listing.incomplete == ("group billing was called gone, yet it is listed or has offsets",)


def test_a_dead_group_with_offsets_is_kept_though_it_is_listed_no_more(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    listed = [True] * 3  # three passes list it, what is asked in between does not

    def every_other(_: Any, version: int) -> Any:
        return groups_answer(version, *([("g", "classic", "Stable")] if listed.pop() else []))

    brokers[0].answers[16] = every_other
    brokers[0].answers[15] = lambda request, version: members_answer(request, version, state="Dead")
    listing = read(*brokers)
    assert [g.group_id for g in listing.groups] == ["g"]
    assert any("group g was called gone" in reason for reason in listing.incomplete)


def test_a_group_whose_offsets_the_answer_leaves_out_makes_the_list_incomplete(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    def first_only(request: Any, version: int) -> Any:
        request.groups = request.groups[:1]
        return committed_answer(request, version)

    brokers[0].answers[9] = first_only
    assert read(*brokers).incomplete == ("offsets of group old cannot be read: NOT_ANSWERED",)


# TopicPartitionMetadata of a stream time, of none, and since 3.4 with a processor's metadata.
OF_STREAMS = ["AQAAAZR8+4AA", "Af//////////", "AgAAAZR8+4AAAAAAAA=="]


@pytest.mark.parametrize("metadata", OF_STREAMS)
@pytest.mark.parametrize("version", [7, 9])
def test_a_streams_application_without_members_is_known_by_what_it_committed(
    brokers: tuple[FakeBroker, FakeBroker], metadata: str, version: int
) -> None:
    for broker in brokers:
        broker.versions[9] = version
    answer = committed_answer if version == 9 else one_group
    brokers[0].answers[9] = lambda request, v: answer(
        request, v, metadata=metadata if v == 9 or request.group_id == "old" else "their own"
    )
    found = {g.group_id: g.is_streams for g in read(*brokers).groups}
    assert found["old"]
    assert found["billing"] == (version == 9)


def one_group(request: Any, version: int, *, metadata: str) -> Any:
    """OffsetFetch before v8, of one group."""
    topic = OffsetFetchResponse.OffsetFetchResponseTopic
    partition = topic.OffsetFetchResponsePartition(
        partition_index=0, committed_offset=50, committed_leader_epoch=-1, metadata=metadata,
        error_code=0, version=version,
    )  # fmt: skip
    topics = [topic(name="orders", partitions=[partition], version=version)]
    return OffsetFetchResponse(version=version, topics=topics, error_code=0)


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
    sharing(brokers, share_answer)
    listing = read(*brokers)
    assert [(g.group_id, g.type, g.members) for g in listing.groups] == [
        ("sharing", "share", 0),
        ("streaming", "streams", None),
    ]
    committed = [r for r in brokers[0].requests if r.API_KEY == 9]
    assert [g.group_id for r in committed for g in r.groups] == ["streaming"]


def sharing(brokers: tuple[FakeBroker, FakeBroker], answer: Any) -> None:
    """A share group and a streams group; broker 1 speaks DescribeShareGroupOffsets."""
    brokers[0].answers[16] = lambda _, version: groups_answer(
        version, ("sharing", "share", "Empty"), ("streaming", "streams", "Stable")
    )
    brokers[0].versions[90] = 0
    brokers[0].answers[90] = answer


def share_of(listing: GroupListing) -> list[int | None]:
    return [o.committed_offset for o in listing.offsets if o.group_id == "sharing"]


def test_start_offsets_of_share_groups_stand_among_the_committed_ones(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    sharing(brokers, lambda request, version: share_answer(request, version, start=7))
    listing = read(*brokers)
    assert [(o.group_id, o.topic, o.committed_offset) for o in listing.offsets] == [
        ("sharing", "orders", 7),
        ("streaming", "orders", 50),
    ]
    assert listing.groups[0].error is None
    (asked,) = [r for r in brokers[0].requests if r.API_KEY == 90]
    assert [(g.group_id, g.topics) for g in asked.groups] == [("sharing", None)]


def test_a_start_offset_that_was_never_set_is_unknown(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    sharing(brokers, lambda request, version: share_answer(request, version, start=-1))
    listing = read(*brokers)
    assert share_of(listing) == [None]
    assert (listing.groups[0].error, listing.incomplete) == (None, ())


@pytest.mark.parametrize("where", ["group_error", "partition_error"])
def test_start_offsets_that_cannot_be_read_are_the_groups_own_error(
    brokers: tuple[FakeBroker, FakeBroker], where: str
) -> None:
    """One group's error blocks what it may read (guard share-group), not the whole list."""
    sharing(brokers, lambda request, version: share_answer(request, version, **{where: 30}))
    listing = read(*brokers)
    assert share_of(listing) == []
    assert listing.groups[0].error == "GROUP_AUTHORIZATION_FAILED"
    assert listing.incomplete == ()


def test_a_broker_that_does_not_know_start_offsets_leaves_them_unknown(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    sharing(brokers, share_answer)
    del brokers[0].versions[90]
    listing = read(*brokers)
    assert listing.groups[0].error == "API_UNSUPPORTED"
    assert listing.incomplete == ()


def test_start_offsets_of_a_loading_coordinator_are_read_again(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    errors = [14]

    def loading_once(request: Any, version: int) -> Any:
        return share_answer(request, version, group_error=errors.pop() if errors else 0)

    sharing(brokers, loading_once)
    listing = read(*brokers)
    assert (share_of(listing), listing.groups[0].error) == ([50], None)


def test_a_share_group_that_ended_meanwhile_is_left_out(
    brokers: tuple[FakeBroker, FakeBroker],
) -> None:
    sharing(brokers, lambda request, version: share_answer(request, version, group_error=69))
    ends(brokers[0], "share")
    assert read(*brokers) == GroupListing((), ())
