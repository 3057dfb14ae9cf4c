"""Which guards stand on which facts, each with its reason in words."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from dashboard.core.errors import PlanError
from dashboard.domain.model import (
    ANY_TOPIC,
    Group,
    GroupListing,
    GroupOffset,
    Guard,
    TopicPartition,
)
from dashboard.purge.plan import standing
from dashboard.purge.plan.claims import GroupClaim, RememberedOffset, claims_of, offset_topics
from dashboard.purge.plan.guards import Finding, Override, findings, lift
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.plan.standing import stand
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, declared, facts, partition

CLAIMS = {0: {"a": 80}}


def judged(found: Any, target: int | None = 50, **change: Any) -> list[Finding]:
    given = {
        "waived": (), "declarations": {TOPIC: declared()}, "most_partitions": 10,
        "planned_partitions": 1, **change,
    }  # fmt: skip
    return findings(found, {KEY: ResolvedTarget(target)}, **given)[KEY]


def names(found: Any, target: int | None = 50, **change: Any) -> list[str]:
    return [f.guard.name for f in judged(found, target, **change)]


def test_a_healthy_partition_below_every_commit_is_free() -> None:
    assert names(facts(claims=CLAIMS)) == []


@pytest.mark.parametrize(
    ("change", "guard"),
    [
        ({"isr": (1, 2)}, "under-replicated"),
        ({"reassigning": ((4,), (1,))}, "reassigning"),
        ({"leader_moves_to": "/d2"}, "leader-log-dir-move"),
        ({"is_internal": True}, "system-topic"),
        ({"stable": 49}, "beyond-last-stable-offset"),
        ({"last_stable_offset": None}, "beyond-last-stable-offset"),
    ],
)
def test_a_partition_in_a_bad_moment_is_guarded(change: dict[str, Any], guard: str) -> None:
    assert names(facts(partition(**change), claims=CLAIMS)) == [guard]


@pytest.mark.parametrize(
    ("configs", "guard"),
    [
        ({"cleanup.policy": "compact"}, "not-deletable"),
        ({"cleanup.policy": ""}, "not-deletable"),
        ({"cleanup.policy": "compact,delete"}, "changelog-source"),
        ({"remote.storage.enable": "true"}, "remote-storage"),
        ({"confluent.tier.enable": "true"}, "remote-storage"),
        ({"redpanda.remote.write": "true"}, "remote-storage"),
        ({"unclean.leader.election.enable": "true"}, "unclean-election-enabled"),
    ],
)
def test_a_topics_configs_guard_it(configs: dict[str, str], guard: str) -> None:
    assert names(facts(claims=CLAIMS, configs=configs)) == [guard]


def test_an_incomplete_group_list_blocks_every_partition() -> None:
    found = facts(claims=CLAIMS, incomplete=("broker 2 gave no answer",))
    assert names(found) == ["groups-incomplete"]


def test_readers_nobody_declared_are_unknown() -> None:
    assert names(facts(claims=CLAIMS), declarations={}) == ["readers-undeclared"]
    unknown = {TOPIC: declared(readers="unknown")}
    assert names(facts(claims=CLAIMS), declarations=unknown) == ["readers-undeclared"]
    same = {TOPIC: replace(declared(), topic_id="id-1")}
    assert names(facts(claims=CLAIMS), declarations=same) == []
    before = {TOPIC: replace(declared(), topic_id="id-0")}  # of a topic that had the name
    assert names(facts(claims=CLAIMS), declarations=before) == ["readers-undeclared"]


def test_a_group_behind_the_target_blocks_unless_waived() -> None:
    found = facts(claims={0: {"a": 80, "slow": 10}})
    assert names(found) == ["unread-by-group"]
    assert names(found, waived={"slow"}) == []


def test_a_group_that_only_a_snapshot_remembers_blocks_too() -> None:
    found = facts(claims={0: {"gone": 10}}, remembered=frozenset({"gone"}))
    assert names(found) == ["unread-by-group"]


def test_a_topic_without_any_group_is_unknown_never_safe() -> None:
    assert names(facts()) == ["no-committed-offset"]
    assert names(facts(), target=None) == ["no-committed-offset"]


def test_a_group_of_the_topic_without_a_commit_here_blocks() -> None:
    found = facts(partition(), partition(number=1), claims={0: {"a": 80}, 1: {"b": 5}})
    assert names(found) == ["no-committed-offset"]


def test_a_member_that_reads_here_without_commits_blocks() -> None:
    reader = Group("reader", "consumer", "Stable", 1, (KEY,))
    assert names(facts(claims=CLAIMS, groups=(reader,))) == ["members-without-commits"]


@pytest.mark.parametrize(("topic", "blocks"), [(TOPIC, True), ("other", False), (None, True)])
def test_a_share_group_without_start_offsets_blocks_the_topics_it_may_read(
    topic: str | None, blocks: bool
) -> None:
    assigned = (TopicPartition(topic, 0),) if topic else ()
    share = Group("share", "share", "Stable", 1, assigned)
    expected = ["share-group"] if blocks else []
    assert names(facts(claims=CLAIMS, groups=(share,))) == expected


SHARE = Group("share", "share", "Empty", 0)


@pytest.mark.parametrize(
    ("start", "expected"),
    [(50, []), (80, []), (49, ["unread-by-group"]), (None, ["share-group"])],
)
def test_a_share_group_holds_what_lies_past_its_start_offset(
    start: int | None, expected: list[str]
) -> None:
    """Records at or past it are still wanted; None: it has not begun, so that is unknown."""
    found = facts(claims={0: {"a": 80, "share": start}}, groups=(SHARE,))
    assert names(found) == expected
    assert names(found, waived={"share"}) == []


def test_a_share_group_that_has_begun_elsewhere_on_the_topic_is_unknown_here() -> None:
    two = (partition(), partition(number=1))
    found = facts(*two, claims={0: {"a": 80}, 1: {"share": 60}}, groups=(SHARE,))
    assert names(found) == ["share-group"]


def test_a_share_group_that_reads_other_topics_alone_blocks_nothing_here() -> None:
    found = facts(claims=CLAIMS, groups=(SHARE,))
    assert names(found) == ["share-group"], "it may read any topic"
    elsewhere = replace(found, offset_topics={"share": frozenset({"other"})})
    assert names(elsewhere) == []
    reader = replace(SHARE, assigned=(KEY,))
    assert names(replace(elsewhere, groups={"share": reader})) == ["share-group"]


def test_a_share_group_whose_start_offsets_cannot_be_read_blocks_whatever_is_remembered() -> None:
    hidden = replace(SHARE, error="GROUP_AUTHORIZATION_FAILED")
    found = facts(claims={0: {"a": 80, "share": 90}}, groups=(hidden,))
    assert names(found) == ["share-group"]


def lines(found: Any) -> list[str]:
    """Each guard and the words about its group, without what they share."""
    return [f"{f.guard.name}:{f.group_id}: {f.guard.reason}" for f in judged(found)]


REREADING = Group("g", "consumer", "Stable", 1, (KEY,))


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (REREADING, ["members-without-commits"]),
        # It reads the topic, and the partition is on its way from one member to another.
        (replace(REREADING, assigned=(TopicPartition(TOPIC, 1),)), ["no-committed-offset"]),
        (replace(REREADING, state="PreparingRebalance", assigned=()), ["no-committed-offset"]),
        (replace(REREADING, type="streams", members=None, assigned=()), ["no-committed-offset"]),
        (replace(REREADING, assigned=(TopicPartition("other", 0),)), ["no-committed-offset"]),
        # Its offset was deleted, or the group itself, and it crashed before its first commit.
        (replace(REREADING, state="Empty", members=0, assigned=()), ["no-committed-offset"]),
    ],
)
def test_a_remembered_offset_does_not_stand_for_a_group_that_is_there_without_it(
    group: Group, expected: list[str]
) -> None:
    """Its offsets were deleted to read all again: what it once read is wanted once more."""
    claims = {0: {"g": 90, "h": 50}}
    found = facts(claims=claims, groups=(group,), remembered=frozenset({"g"}))
    assert names(found) == expected
    assert names(found, waived={"g"}) == []
    assert names(facts(claims=claims, groups=(group,))) == [], "as soon as it committed"


def test_the_reason_says_what_is_known_of_such_a_group() -> None:
    claims, remembered = {0: {"g": 90}}, frozenset({"g"})
    assert lines(facts(claims=claims, groups=(REREADING,), remembered=remembered)) == [
        "members-without-commits:g: Group g has members that read this partition and no "
        "committed offset here."
    ]
    moving = replace(REREADING, assigned=())
    assert lines(facts(claims=claims, groups=(moving,), remembered=remembered)) == [
        "no-committed-offset:g: The last known offset of group g is gone: what was read here is "
        "unknown."
    ]


UNSEEN = Group("app", "streams", "NotReady", None)
STREAMS = Group("app", "streams", "Stable", 1, subscribed=(TOPIC,))


def test_a_group_of_unknown_members_counts_by_its_commits() -> None:
    """What nobody can tell of its members; what it committed is read as of any group."""
    assert names(facts(claims={0: {"a": 80, "app": 10}}, groups=(UNSEEN,))) == ["unread-by-group"]
    assert names(facts(claims={0: {"a": 80, "app": 50}}, groups=(UNSEEN,))) == []
    assert names(facts(claims=CLAIMS, groups=(UNSEEN,))) == [], "it committed elsewhere"


def test_a_group_reads_the_topics_that_it_asks_for_before_it_is_assigned_any() -> None:
    assert lines(facts(claims=CLAIMS, groups=(STREAMS,))) == [
        "no-committed-offset:app: Group app has committed no offset on this partition: what was "
        "read here is unknown."
    ]
    assert names(facts(claims={0: {"a": 80, "app": 50}}, groups=(STREAMS,))) == []
    elsewhere = replace(STREAMS, subscribed=("other",))
    assert names(facts(claims=CLAIMS, groups=(elsewhere,))) == []


def test_a_group_of_unknown_members_that_committed_nowhere_may_read_any_topic() -> None:
    found = facts(claims=CLAIMS, groups=(UNSEEN,), nowhere=frozenset({"app"}))
    assert lines(found) == [
        "no-committed-offset:app: Group app may read any topic: what was read here is unknown."
    ]
    assert names(found, waived={"app"}) == []


def test_a_group_that_may_read_any_topic_does_not_stand_for_a_reader_of_this_one() -> None:
    found = facts(groups=(UNSEEN,), nowhere=frozenset({"app"}))
    assert [line[:44] for line in lines(found)] == [
        "no-committed-offset:None: No group that coun",
        "no-committed-offset:app: Group app may read ",
    ]


def test_only_groups_without_any_offset_are_without_offsets() -> None:
    groups = (UNSEEN, replace(UNSEEN, group_id="busy"), replace(UNSEEN, group_id="reset"))
    share = Group("share", "share", "Stable", None)
    offsets = (GroupOffset("busy", "other", 3, 0), GroupOffset("reset", TOPIC, 0, None))
    seen = Group("seen", "classic", "Stable", 1)
    listing = GroupListing((*groups, share, seen), offsets)
    found = replace(
        facts(claims=CLAIMS, groups=listing.groups), offset_topics=offset_topics(listing)
    )
    spoken_of = {f.group_id for f in judged(found) if f.guard.name == "no-committed-offset"}
    assert spoken_of == {"app", "reset"}


@pytest.mark.parametrize(
    ("state", "read", "found"),
    [("PreparingRebalance", (), {"g"}), ("CompletingRebalance", (), {"g"}),
     ("Assigning", (), {"g"}), ("Stable", (), set()), ("Reconciling", ("other",), set())],
)  # fmt: skip
def test_members_that_wait_for_partitions_may_read_any_topic_until_they_say_which(
    state: str, read: tuple[str, ...], found: set[str]
) -> None:
    group = Group("g", "consumer", state, 1, subscribed=read)
    committed = (GroupOffset("g", "other", 0, 7),)
    for offsets, expected in ((), found), (committed, set()):
        listing = GroupListing((group,), offsets)
        known = replace(facts(claims=CLAIMS, groups=(group,)), offset_topics=offset_topics(listing))
        assert {f.group_id for f in judged(known)} == expected


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
@pytest.mark.parametrize(
    ("kind", "members", "found"),
    [("connect", 3, set()), ("sr", 2, set()), ("classic", 3, {"g"}), ("connect", None, {"g"})],
)
def test_workers_that_rebalance_wait_for_no_partitions(
    kind: str, members: int | None, state: str, found: set[str]
) -> None:
    """Connect rebalances with each connector that is made or changed: it refused every purge."""
    group = Group("g", kind, state, members)
    told = offset_topics(GroupListing((group,), ()))
    known = replace(facts(claims=CLAIMS, groups=(group,)), offset_topics=told)
    assert {f.group_id for f in judged(known)} == found


def test_claims_of_share_groups_are_their_start_offsets_known_or_not() -> None:
    listing = GroupListing(
        (SHARE, Group("a", "consumer", "Empty", 0)),
        (
            GroupOffset("share", TOPIC, 0, 7),
            GroupOffset("share", TOPIC, 1, None),
            GroupOffset("a", TOPIC, 1, None),
        ),
    )
    assert offset_topics(listing) == {"share": frozenset({TOPIC})}
    two = (partition(), partition(number=1))
    topic_id = two[1].topic_id
    remembered = [RememberedOffset(group, TOPIC, 1, 4, topic_id) for group in ("share", "a")]
    assert claims_of(listing, remembered, {p.key: p for p in two}) == {
        TopicPartition(TOPIC, 0): (GroupClaim("share", 7),),
        # Of group a the coordinator says that it lists one of an earlier topic: it begins anew.
        TopicPartition(TOPIC, 1): (
            GroupClaim("a", 4, remembered=True),
            GroupClaim("share", None),
        ),
    }


def test_where_nothing_is_left_to_delete_nobody_loses_anything() -> None:
    assert names(facts(partition(50), claims={0: {"a": 10}}), declarations={}) == []


def reads_of(application: Group, topic: str, **change: Any) -> list[str]:
    return [guard.reason for guard in guards_of(application, topic, **change)]


def guards_of(
    application: Group, topic: str, beside: tuple[Group, ...] = (), **change: Any
) -> list[Guard]:
    key = TopicPartition(topic, 0)
    found = facts(partition(topic=topic), groups=(application, *beside))
    claims = {key: (GroupClaim("app", 80), GroupClaim("other", 80))}
    found = replace(found, claims=claims, offset_topics={"app": frozenset({topic})})
    given = {
        "waived": (), "declarations": {topic: replace(declared(), **change)},
        "most_partitions": 10, "planned_partitions": 1,
    }  # fmt: skip
    return [f.guard for f in findings(found, {key: ResolvedTarget(50)}, **given)[key]]


APP = Group("app", "classic", "Empty", 0, is_streams=True)


def test_what_a_streams_application_reads_may_be_its_own_changelog() -> None:
    """reuse.ktable.source.topics: whatever the policy, a table is restored from its source."""
    assert reads_of(APP, TOPIC) == [
        "orders may be the source of a state store (Kafka Streams application app reads it): "
        "Kafka Streams restores from it whatever its groups committed."
    ]
    assert reads_of(APP, TOPIC, state_restore="none") == [], "somebody vouched for it"
    assert reads_of(replace(APP, is_streams=False), TOPIC) == []


def test_where_an_application_runs_any_topic_may_be_read_as_a_global_table() -> None:
    """No group shows that: only who declares the topic's readers can tell."""
    apps = tuple(replace(APP, group_id=name) for name in ("a", "b", "c", "d"))
    found = facts(claims={0: {"other": 80}}, groups=apps)
    assert [f.guard.reason for f in judged(found, declarations={})][1:] == [
        "orders may be the source of a state store (Kafka Streams runs or ran here, and a global "
        "table of a, b, c and 1 more is read by no group): Kafka Streams restores from it whatever "
        "its groups committed."
    ]
    assert names(found) == [], "its groups are all its readers"
    alone = replace(declared(readers="unknown"), state_restore="none")
    assert names(found, declarations={TOPIC: alone}) == ["readers-undeclared"]


def test_a_topic_that_one_application_reads_may_be_a_global_table_of_another() -> None:
    two = tuple(replace(APP, group_id=name) for name in ("a", "b"))
    found = facts(claims={0: {"a": 80}}, groups=two)
    undeclared, reads, table = judged(found, declarations={})
    assert undeclared.guard.name == "readers-undeclared"
    assert (reads.group_id, reads.fact) == ("a", "streams")
    assert (table.group_id, table.fact) == (None, "global tables of b")
    assert "a global table of b is read by no group" in table.guard.reason
    both = judged(facts(claims={0: {"a": 80, "b": 80}}, groups=two), declarations={})
    assert [f.fact for f in both] == [None, "streams", "streams"]
    assert [f.fact for f in judged(found)] == ["streams"], "its groups are all its readers"
    own = "a-join-repartition"
    key = TopicPartition(own, 0)
    mine = replace(facts(partition(topic=own), groups=two), claims={key: (GroupClaim("a", 80),)})
    given = {"waived": (), "declarations": {}, "most_partitions": 10, "planned_partitions": 1}
    (alone,) = findings(mine, {key: ResolvedTarget(50)}, **given)[key]
    assert alone.guard.name == "readers-undeclared", "no global table is built from such a name"


def test_an_application_that_is_gone_is_named_there_and_where_it_has_an_offset() -> None:
    """Its group has expired: a kept snapshot knew it, and its state is restored all the same."""
    gone = frozenset({"app"})
    found = replace(facts(claims={0: {"other": 80}}), streams=gone)
    assert [f.guard.reason for f in judged(found, declarations={})][1:] == [
        "orders may be the source of a state store (Kafka Streams runs or ran here, and a global "
        "table of app is read by no group): Kafka Streams restores from it whatever its groups "
        "committed."
    ]
    assert names(found) == [], "its groups are all its readers"
    held = replace(facts(claims={0: {"app": 80}}, remembered=gone), streams=gone)
    for waived in (set(), {"app"}):
        assert "changelog-source" in names(held, waived=waived)


def test_repartition_topics_of_the_application_are_read_once_and_never_restored_from() -> None:
    assert reads_of(APP, "app-join-repartition") == []
    assert len(reads_of(APP, "other-join-repartition")) == 1, "another's is its source"
    europe = Group("app-eu", "classic", "Stable", 1, is_streams=True)
    (reason,) = reads_of(APP, "app-eu-join-repartition", beside=(europe,))
    assert "application app reads it" in reason, "it is app-eu's, whose name is the longer one"


def test_what_is_offered_ends_the_guard() -> None:
    """No declaration ends it for an own changelog."""
    (own,) = guards_of(replace(APP, is_streams=False), "app-store-changelog")
    assert "state_restore" not in own.lift
    assert own.lift.startswith("Leave it to its application, or delete the topic with it; or")
    (source,) = guards_of(APP, "orders")
    assert 'Declare state_restore = "none"' in source.lift
    assert guards_of(APP, "orders", state_restore="none") == []


def test_a_changelog_is_one_whatever_is_declared() -> None:
    (reason,) = reads_of(
        replace(APP, is_streams=False), "app-store-changelog", state_restore="none"
    )
    assert "its name ends with -changelog" in reason


def test_a_live_offset_past_the_end_of_the_log_tells_nothing_of_what_was_read() -> None:
    """A lost disk, an unclean election or a hand left it there: 500 records are unread by it."""
    found = facts(claims={0: {"a": 80, "reset": 1_000_000}})
    assert lines(found) == [
        "no-committed-offset:reset: Group reset committed 1000000, past the end of the log (100): "
        "what was read here is unknown."
    ]
    assert names(found, waived={"reset"}) == []
    assert names(facts(claims={0: {"a": 80, "end": 100}})) == [], "at the end all was read"


def test_where_the_only_offset_lies_past_the_end_its_group_is_named_though_no_target_is() -> None:
    found = facts(claims={0: {"reset": 1_000_000}})
    assert [(f.guard.name, f.group_id) for f in judged(found, None)] == [
        ("no-committed-offset", None), ("no-committed-offset", "reset"),
    ]  # fmt: skip


def test_more_guards_than_a_plan_can_tell_are_refused_by_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(standing, "_MOST_GUARDS", 1)
    groups = tuple(Group(name, "consumer", "Stable", 1, patterns=("ord.*",)) for name in "pq")
    with pytest.raises(PlanError) as refused:
        names(facts(claims=CLAIMS, groups=groups))
    assert (refused.value.code, refused.value.exit_code) == ("TOO_MANY_GUARDS", 1)
    assert "1 partitions 2 times" in refused.value.message
    assert "fewer topics" in refused.value.next_step


def test_a_pattern_that_takes_the_topic_in_makes_its_group_a_reader() -> None:
    group = Group("p", "consumer", "Stable", 1, patterns=("ord.*",))
    assert lines(facts(claims=CLAIMS, groups=(group,))) == [
        "no-committed-offset:p: Group p subscribes by a pattern that takes this topic in, and has "
        "committed no offset here: what was read here is unknown."
    ]
    assert names(facts(claims={0: {"a": 80, "p": 60}}, groups=(group,))) == []
    assert names(facts(claims={0: {"p": 90}}, groups=(group,))) == [], "its own offset counts"
    other = replace(group, patterns=("order",))
    assert names(facts(claims=CLAIMS, groups=(other,))) == [], "a pattern takes in whole names"
    unread = replace(group, patterns=("(?P<",))
    assert names(facts(claims=CLAIMS, groups=(unread,))) == ["no-committed-offset"]


def test_the_never_liftable_stand_whatever_is_overridden() -> None:
    found = facts(claims=CLAIMS, incomplete=("why",))
    stands = judged(found, declarations={})
    forged = [Override(f.guard.name, None, "why", "eve", NOW) for f in stands]
    blocking, lifted = lift(stands, forged, has_target=True)
    assert [g.name for g in blocking] == ["groups-incomplete"]
    assert [o.name for o, _ in lifted] == ["readers-undeclared"]


def test_without_a_target_nothing_is_lifted() -> None:
    asked = [Override("no-committed-offset", None, "why", "eve", NOW)]
    assert lift(judged(facts(), None), asked, has_target=False)[1] == []


def test_a_waiver_of_an_application_lifts_nothing_that_it_restores_from() -> None:
    found = facts(claims={0: {"a": 80, "app": 50}}, groups=(APP,))
    found = replace(found, offset_topics={"app": frozenset({TOPIC})})
    assert names(found, waived={"app"}) == ["changelog-source"]


def test_a_remembered_start_offset_of_a_share_group_is_no_beginning() -> None:
    share = replace(SHARE, assigned=(KEY,), members=1, state="Stable")
    found = facts(
        claims={0: {"a": 80, "share": 60}}, groups=(share,), remembered=frozenset({"share"})
    )
    assert names(found) == ["share-group"]


def test_a_share_group_whose_start_offset_is_gone_has_no_place() -> None:
    """Its offsets on this topic were deleted (KIP-932), those on another one were not."""
    share = replace(SHARE, assigned=(), members=0, state="Empty")
    told = facts(claims={0: {"a": 80, "share": 60}}, groups=(share,),
                 remembered=frozenset({"share"}))  # fmt: skip
    told = replace(told, offset_topics={"share": frozenset({"payments"})})
    assert names(told) == ["no-committed-offset"]
    assert names(told, waived={"share"}) == []


def test_an_offset_that_could_not_be_read_is_not_gone() -> None:
    idle = replace(REREADING, state="Empty", members=0, assigned=())
    told = facts(claims={0: {"g": 90}}, groups=(idle,), remembered=frozenset({"g"}))
    why = {KEY: "group g: COORDINATOR_LOAD_IN_PROGRESS"}
    told = replace(told, offset_errors=why, unread_groups=frozenset({"g"}))
    assert names(told) == ["groups-incomplete"]


def test_what_lifts_a_guard_is_offered_as_a_shell_takes_it_group_by_group() -> None:
    names = ("billing", "$(touch x)", "a=b")
    found = facts(claims={0: dict.fromkeys(names, 10)})
    lifts = {f.group_id: f.guard.lift for f in judged(found)}
    assert '--override "unread-by-group:billing=WHY"' in lifts["billing"]
    for name in names:
        asked = lifts[name].partition("--override ")[2].partition(" when ")[0]
        (word,) = shlex.split(asked)
        assert word in (f"unread-by-group:{name}=WHY", f'unread-by-group:"{name}"=WHY')
    assert lifts["$(touch x)"].count("'") >= 2


def test_an_offset_of_an_earlier_topic_in_the_plan_ends_no_doubt_about_another() -> None:
    """`app` read `other` before that was made anew, and nobody can tell what it reads since."""
    one, other = partition(), partition(topic="other", topic_id="id-3")
    known = facts(one, other, claims={0: {"h": 60}})
    former = (GroupClaim("app", None, remembered=True), GroupClaim("h", 60))
    known = replace(
        known,
        met={("app", ANY_TOPIC): 5, ("app", ""): 5},
        claims={**known.claims, other.key: former},
    )
    alone = stand(known, [KEY], [TOPIC, "other"])
    both = stand(known, [KEY, other.key], [TOPIC, "other"])
    for found in (alone, both):
        named = {(row["row"], row["group_id"]) for row in found.unplaced.to_pylist()}
        assert (0, "app") in named
