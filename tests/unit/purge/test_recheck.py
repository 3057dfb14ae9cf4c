"""The last look: what was accepted on one partition is accepted there; the plan's target goes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.canonical import canonical, digest
from dashboard.core.errors import PlanError
from dashboard.domain.model import (
    Group,
    TopicPartition,
)
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.execute.recheck import Rechecked, recheck
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.facts import read_facts
from dashboard.purge.plan.guards import Lifted, Override, Waiver
from dashboard.purge.plan.plan import Plan, build
from dashboard.purge.plan.preview import GroupPartitions, preview
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.settings.settings import PurgeSettings
from tests.support.cluster import FakeCluster, FakePartition
from tests.unit.purge.facts_of import NOW, declared
from tests.unit.purge.room import Room

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
A1 = TopicPartition("a", 1)
TARGET = 80


class TwoTopics(FakeCluster):
    """Topics `a` and `b`; group `all` read everything."""

    def __init__(self, *keys: TopicPartition) -> None:
        super().__init__(0)
        self.parts = {key: FakePartition({1: 0, 2: 0, 3: 0}) for key in keys or (A, B)}
        self.offsets_of = {"all": dict.fromkeys(self.parts, 100)}


def planned(live: TwoTopics, *overrides: str) -> Plan:
    """A plan of everything up to TARGET; overrides are spelt `name` or `name:group`."""
    topics = sorted({key.topic for key in live.parts})
    found = read_facts(live, topics, cluster_name="prod", remembered=(), now=NOW)
    lifted = [text.partition(":") for text in ("readers-undeclared", *overrides)]
    return build(
        found, {key: ResolvedTarget(TARGET) for key in live.parts}, target="offset:80",
        overrides=[Override(name, group or None, "accepted", "ann", NOW)
                   for name, _, group in lifted],
        declarations={}, estimates={}, analysis_id=None, most_partitions=100, created_by="ann",
        now=NOW, expires_after=timedelta(hours=1),
    )  # fmt: skip


def waiving(live: TwoTopics, group: str) -> Plan:
    """The same plan, with a group waived as gone."""
    topics = sorted({key.topic for key in live.parts})
    found = read_facts(live, topics, cluster_name="prod", remembered=(), now=NOW)
    return build(
        found, {key: ResolvedTarget(TARGET) for key in live.parts}, target="offset:80",
        waivers=[Waiver(group, "gone", "ann", NOW)], declarations=DECLARED, estimates={},
        analysis_id=None, most_partitions=100, created_by="ann", now=NOW,
        expires_after=timedelta(hours=1),
    )  # fmt: skip


DECLARED = {key.topic: replace(declared(), glob=key.topic) for key in (A, B)}
STANDARDS = Standards(DECLARED, PurgeSettings(most_partitions=100))


def looked(live: TwoTopics, plan: Plan) -> Rechecked:
    assert all(p.free for p in plan.partitions)
    rows = [PartitionRow(*key, TARGET, "pending") for key in sorted(live.parts)]
    return recheck(live, plan, rows, NOW, STANDARDS)


@pytest.mark.parametrize("override", ["unread-by-group:g", "unread-by-group"])
def test_a_loss_that_was_accepted_on_one_topic_is_not_accepted_on_another(override: str) -> None:
    live = TwoTopics()
    live.offsets_of["g"] = {A: 10}
    plan = planned(live, override)
    live.offsets_of["g"][B] = 5  # its first commit there, after the plan
    found = looked(live, plan)
    assert list(found.allowed) == [A]
    assert found.refused[B].name == "unread-by-group"
    assert "Group g" in found.refused[B].reason
    assert "lifted it elsewhere, not on b-0" in found.refused[B].reason


def test_a_partition_that_was_to_lose_nothing_loses_nothing_that_came_back() -> None:
    """Its target was its log start: a purge that was undone by an election began there, too."""
    live = TwoTopics()
    for broker in live.parts[A].starts:
        live.parts[A].starts[broker] = TARGET
    plan = planned(live)
    assert [p.records for p in plan.partitions] == [0, TARGET]
    assert list(looked(live, plan).arrived) == [A]
    for broker in live.parts[A].starts:
        live.parts[A].starts[broker] = 0
    found = looked(live, plan)
    assert (list(found.allowed), found.unreadable[A].name) == ([B], "not-planned")
    assert "its log begins at 0 by now" in found.unreadable[A].reason


def test_nor_is_it_on_another_partition_of_the_topic() -> None:
    live = TwoTopics(A, A1)
    live.offsets_of["g"] = {A: 10}
    plan = planned(live, "unread-by-group:g", "no-committed-offset:g")
    live.offsets_of["g"][A1] = 5
    found = looked(live, plan)
    assert (list(found.allowed), found.refused[A1].name) == ([A], "unread-by-group")


def test_a_group_that_went_on_where_its_loss_was_accepted_is_no_refusal() -> None:
    live = TwoTopics()
    live.offsets_of["g"] = {A: 10, B: 90}
    plan = planned(live, "unread-by-group:g")
    live.offsets_of["g"][A] = 20
    assert sorted(looked(live, plan).allowed) == [A, B]
    live.offsets_of["g"][A] = 9
    assert "moved back from 10 to 9" in looked(live, plan).refused[A].reason


def test_a_group_without_a_commit_is_accepted_only_where_it_had_none() -> None:
    live = TwoTopics(A, A1, B, TopicPartition("b", 1))
    live.offsets_of["g"] = {A: 90}
    plan = planned(live, "no-committed-offset:g")
    assert sorted(looked(live, plan).allowed) == sorted(live.parts)
    live.offsets_of["g"][B] = 90  # it begins on b, and has no commit on b-1 yet
    found = looked(live, plan)
    assert sorted(found.allowed) == [A, A1, B]
    assert found.refused[TopicPartition("b", 1)].name == "no-committed-offset"


def test_a_member_without_commits_is_accepted_only_where_it_read_when_planned() -> None:
    live = TwoTopics()
    live.others = ((Group("g", "consumer", "Stable", 1, (A,)),), ())
    live.offsets_of["g"] = {}
    plan = planned(live, "members-without-commits:g")
    assert sorted(looked(live, plan).allowed) == [A, B]
    live.others = ((Group("g", "consumer", "Stable", 1, (A, B)),), ())
    found = looked(live, plan)
    assert (list(found.allowed), found.refused[B].name) == ([A], "members-without-commits")


def test_a_share_group_is_accepted_only_where_it_read_when_planned() -> None:
    live = TwoTopics()
    live.others = ((Group("s", "share", "Stable", 1, (A,)),), ())
    live.offsets_of["s"] = {A: None}
    plan = planned(live, "share-group:s")
    assert sorted(looked(live, plan).allowed) == [A, B]
    live.offsets_of["s"][B] = None
    found = looked(live, plan)
    assert (list(found.allowed), found.refused[B].name) == ([A], "share-group")


def test_a_share_group_that_told_nothing_is_not_accepted_where_it_reads() -> None:
    """Its coordinator could not be asked for its offsets when the plan was made."""
    live = TwoTopics(A)
    silent = Group("s", "share", "Stable", 1, (), error="API_UNSUPPORTED")
    live.others = ((silent,), ())
    plan = planned(live, "share-group:s")
    assert plan.partitions[0].lifted == (
        Lifted("share-group", "s", "untold"), Lifted("readers-undeclared", None),
    )  # fmt: skip
    assert list(looked(live, plan).allowed) == [A]
    live.others = ((replace(silent, error=None, subscribed=("a",)),), ())
    refused = looked(live, plan).refused[A]
    assert refused.name == "share-group"
    assert "The plan lifted another fact of it" in refused.reason


def test_what_was_accepted_ends_at_the_log_start_that_was_shown() -> None:
    """A replica that missed an earlier purge is elected: 60 more records are there, and unread."""
    live = TwoTopics(A, B)
    live.parts[A] = FakePartition({1: 60, 2: 60, 3: 0})
    live.parts[B] = FakePartition({1: 60, 2: 60, 3: 0})
    live.offsets_of |= {"g": {A: 10}, "dead": {B: 10}}
    plan = planned(live, "unread-by-group:g", "unread-by-group:dead")
    live.elect(3)
    found = looked(live, plan)
    assert [found.refused[key].name for key in (A, B)] == ["unread-by-group"] * 2
    assert "starts at 0 again, below the 60 of the plan" in found.refused[A].reason


def test_a_waiver_ends_there_too() -> None:
    live = TwoTopics(A, B)
    for key in (A, B):
        live.parts[key] = FakePartition({1: 60, 2: 60, 3: 0})
    live.offsets_of["dead"] = {A: 10, B: 65}
    plan = waiving(live, "dead")
    live.elect(3)
    found = looked(live, plan)
    assert "more records would go than were accepted (waived dead)" in found.refused[A].reason
    assert list(found.allowed) == [B], "it stands above what came back"


@pytest.mark.parametrize("commits", [{}, {A: 500}])
def test_a_waiver_of_a_group_without_an_offset_that_tells_ends_there_too(
    commits: dict[TopicPartition, int | None],
) -> None:
    """It reads the partition and never committed, or stands past the end of the log."""
    live = TwoTopics(A)
    live.parts[A] = FakePartition({1: 60, 2: 60, 3: 0})
    live.offsets_of |= {"all": {A: 100}, "w": commits}
    live.others = ((Group("w", "classic", "Stable", 1, (A,)),), ())
    plan = waiving(live, "w")
    assert list(looked(live, plan).allowed) == [A]
    live.elect(3)
    found = looked(live, plan)
    assert "more records would go than were accepted (waived w)" in found.refused[A].reason


def test_the_preview_says_what_a_waived_group_without_a_commit_may_lose() -> None:
    live = TwoTopics(A)
    live.others = ((Group("w", "classic", "Stable", 1, (A,)),), ())
    live.offsets_of["w"] = {}
    shown = preview(waiving(live, "w"), NOW)
    (lost,) = [row for row in shown.groups if row.group_id == "w"]
    assert (lost.waived, lost.remembered, lost.partitions) == (True, False, 1)
    assert (lost.loss_if_earliest, lost.loss_if_latest) == (80, 100)
    assert shown.coverage[0].never_committed == [GroupPartitions("w", [0])]


def test_the_preview_says_what_a_group_may_lose_whose_guard_was_lifted() -> None:
    live = TwoTopics(A)
    live.others = ((Group("g", "consumer", "Stable", 1, (A,)),), ())
    live.offsets_of["g"] = {}
    shown = preview(planned(live, "members-without-commits:g"), NOW)
    (lost,) = [row for row in shown.groups if row.group_id == "g"]
    assert (lost.waived, lost.loss_if_earliest, lost.loss_if_latest) == (False, 80, 100)
    assert shown.coverage[0].never_committed == [GroupPartitions("g", [0])]


def test_an_override_of_one_fact_lifts_no_other() -> None:
    """That a group may subscribe by a pattern is not that it reads the topic by name."""
    live = TwoTopics(A)
    elsewhere = Group("g", "classic", "Stable", 1, subscribed=("elsewhere",))
    live.others = ((elsewhere,), ())
    found = read_facts(live, ["a"], cluster_name="prod", remembered=(), now=NOW)
    plan = build(
        replace(found, new_topics=frozenset({"a"})), {A: ResolvedTarget(TARGET)},
        target="offset:80",
        overrides=[Override("no-committed-offset", "g", "it has no pattern", "ann", NOW)],
        declarations=DECLARED, estimates={}, analysis_id=None, most_partitions=100,
        created_by="ann", now=NOW, expires_after=timedelta(hours=1),
    )  # fmt: skip
    assert plan.partitions[0].lifted == (Lifted("no-committed-offset", "g", "newcomer"),)
    kept = Plan.from_json_text(plan.to_json_text(), "plan.json")
    assert kept == plan
    assert list(looked(live, kept).allowed) == [A]

    live.others = ((replace(elsewhere, subscribed=("a", "elsewhere")),), ())
    refused = looked(live, kept).refused[A]
    assert refused.name == "no-committed-offset"
    assert "The plan lifted another fact of it" in refused.reason
    live.others = ((Group("g", "classic", "Empty", 0),), ())
    live.offsets_of["g"] = {A: 1_000_000}
    assert looked(live, kept).refused[A].name == "no-committed-offset"


def test_a_group_that_was_waived_alive_on_one_topic_keeps_what_it_begins_to_read() -> None:
    live = TwoTopics(A, B)
    reads_a = Group("w", "classic", "Stable", 1, (A,), subscribed=("a",))
    live.others, live.offsets_of["w"] = ((reads_a,), ()), {A: 10}
    plan = Plan.from_json_text(waiving(live, "w").to_json_text(), "plan.json")
    assert [dict(p.waived) for p in plan.partitions] == [{"w": 10}, {}]
    assert sorted(looked(live, plan).allowed) == [A, B]
    live.others = ((replace(reads_a, subscribed=("a", "b")),), ())
    found = looked(live, plan)
    assert (list(found.allowed), found.refused[B].name) == ([A], "unread-by-group")
    assert "reads this partition since the plan" in found.refused[B].reason
    live.offsets_of["w"] = {A: 10, B: TARGET}
    assert sorted(looked(live, plan).allowed) == [A, B], "it has read all that goes"


@pytest.mark.parametrize(
    "came",
    [
        Group("w", "share", "Stable", 1, (A, B)),
        Group("w", "share", "Stable", 1, (A,), subscribed=("a", "b")),
    ],
    ids=["assigned", "subscribed"],
)
def test_a_waived_share_group_keeps_what_it_comes_to_before_its_first_start_offset(
    came: Group,
) -> None:
    live = TwoTopics(A, B)
    reads_a = Group("w", "share", "Stable", 1, (A,), subscribed=("a",))
    live.others, live.offsets_of["w"] = ((reads_a,), ()), {A: 10}
    plan = Plan.from_json_text(waiving(live, "w").to_json_text(), "plan.json")
    assert [dict(p.waived) for p in plan.partitions] == [{"w": 10}, {}]
    assert sorted(looked(live, plan).allowed) == [A, B]
    live.others = ((came,), ())
    found = looked(live, plan)
    assert (list(found.allowed), found.refused[B].name) == ([A], "unread-by-group")
    assert "reads this partition since the plan" in found.refused[B].reason


def test_a_share_group_that_was_waived_before_it_had_begun_stays_waived() -> None:
    live = TwoTopics(A)
    live.others = ((Group("w", "share", "Stable", 1, (A,), subscribed=("a",)),), ())
    plan = Plan.from_json_text(waiving(live, "w").to_json_text(), "plan.json")
    assert [dict(p.waived) for p in plan.partitions] == [{"w": None}]
    assert list(looked(live, plan).allowed) == [A]


def test_an_accepted_global_table_is_that_of_the_applications_that_were_named() -> None:
    live = TwoTopics(A)
    live.others = (
        (Group("app1", "classic", "Stable", 1, subscribed=("other",), is_streams=True),),
        (),
    )
    plan = planned(live, "changelog-source", "readers-undeclared")
    assert plan.partitions[0].free
    nobody = replace(STANDARDS, declarations={})
    rows = [PartitionRow(*A, TARGET, "pending")]
    assert list(recheck(live, plan, rows, NOW, nobody).allowed) == [A]
    live.others = ((replace(live.others[0][0], group_id="app2"),), ())
    refused = recheck(live, plan, rows, NOW, nobody).refused[A]
    assert (refused.name, "app2" in refused.reason) == ("changelog-source", True)


def test_nor_is_one_of_an_application_beside_that_which_was_accepted_as_a_reader() -> None:
    """Of a topic that an application's group reads, too; named or not when the plan was made."""
    live = TwoTopics(A)
    live.offsets_of["app1"] = {A: 90}
    reader = Group("app1", "classic", "Stable", 1, (A,), is_streams=True)
    beside = Group("app2", "classic", "Stable", 1, subscribed=("other",), is_streams=True)
    live.others = ((reader,), ())
    plan = planned(live, "changelog-source:app1")
    assert plan.partitions[0].lifted == (
        Lifted("readers-undeclared", None), Lifted("changelog-source", "app1", "streams"),
    )  # fmt: skip
    nobody = replace(STANDARDS, declarations={})
    rows = [PartitionRow(*A, TARGET, "pending")]
    assert list(recheck(live, plan, rows, NOW, nobody).allowed) == [A]
    live.others = ((reader, beside), ())
    refused = recheck(live, plan, rows, NOW, nobody).refused[A]
    assert (refused.name, "table of app2" in refused.reason) == ("changelog-source", True)
    (guard,) = planned(live, "changelog-source:app1").partitions[0].guards
    assert (guard.name, guard.reason) == (refused.name, refused.reason)
    accepted = planned(live, "changelog-source")
    assert accepted.partitions[0].lifted[-1].fact == "global tables of app2"
    assert list(recheck(live, accepted, rows, NOW, nobody).allowed) == [A]


def test_a_topic_without_an_id_is_never_sent() -> None:
    """Nobody could tell it from one that is made anew under its name (brokers before 2.8)."""
    live = TwoTopics(A)
    live.nameless = True
    plan = planned(live)
    (guard,) = plan.partitions[0].guards
    assert (guard.name, "tells the topic's id" in guard.reason) == ("target-unresolved", True)
    forged = replace(plan, partitions=(replace(plan.partitions[0], guards=()),))
    assert looked(live, forged).refused[A].name == "target-unresolved"


def test_what_was_lifted_stands_in_the_plan_on_its_partition() -> None:
    live = TwoTopics()
    live.offsets_of["g"] = {A: 10}
    plan = planned(live, "unread-by-group")
    undeclared = Lifted("readers-undeclared", None)
    assert [p.lifted for p in plan.partitions] == [
        (Lifted("unread-by-group", "g"), undeclared), (undeclared,),
    ]  # fmt: skip
    text = plan.to_json_text()
    assert json.loads(text)["partitions"][0]["lifted"][0] == {
        "name": "unread-by-group", "group_id": "g",
    }  # fmt: skip
    assert Plan.from_json_text(text, "plan.json") == plan


def test_a_plan_of_an_earlier_version_does_not_say_where_so_nothing_is_lifted() -> None:
    live = TwoTopics()
    live.offsets_of["g"] = {A: 10}
    plan = planned(live, "unread-by-group:g")
    document = json.loads(plan.to_json_text())
    del document["sha256"]
    for row in document["partitions"]:
        del row["lifted"]
    text = canonical({**document, "sha256": digest(document)})
    found = looked(live, Plan.from_json_text(text, "old.json"))
    assert (list(found.allowed), found.refused[A].name) == ([B], "unread-by-group")


@pytest.mark.parametrize(
    "lifted", [[], [{}], [{"name": 5, "group_id": None}], [{"name": "x", "group_id": 5}], "all"]
)
def test_a_rehashed_plan_that_lifts_by_other_words_is_refused(lifted: Any) -> None:
    live = TwoTopics()
    document = json.loads(planned(live).to_json_text())
    del document["sha256"]
    document["partitions"][0]["lifted"] = lifted
    text = canonical({**document, "sha256": digest(document)})
    with pytest.raises(PlanError) as refused:
        Plan.from_json_text(text, "plan.json")
    assert refused.value.code == "PLAN_INVALID"


def test_a_partition_says_lifted_but_no_override_does() -> None:
    live = TwoTopics()
    live.offsets_of["g"] = {A: 10}
    plan = replace(planned(live, "unread-by-group:g"), overrides=())
    found = looked(live, plan)
    assert (list(found.allowed), found.refused[A].name) == ([B], "unread-by-group")


@pytest.mark.parametrize("target", [59, 100])
def test_a_row_whose_target_was_changed_in_the_journal_is_not_sent(
    tmp_path: Path, target: int
) -> None:
    room = Room(tmp_path, partitions=2)
    run_id = room.queue(room.plan())
    changed = replace(room.journal.partitions(run_id)[0], target_offset=target)
    room.journal.note(run_id, [changed])
    room.execution(run_id).execute()
    first, second = room.journal.partitions(run_id)
    assert (first.state, first.error) == ("not_done", "not-planned")
    assert f"asks for {target}, the plan has 60" in str(first.message)
    assert second.state == "done"
    assert [targets for _, targets, _ in room.live.sent] == [{second.key: 60}]
    room.journal.close()


def test_a_row_of_a_partition_that_the_plan_does_not_have_is_not_sent(tmp_path: Path) -> None:
    room = Room(tmp_path, partitions=2)
    run_id = room.queue(replace(plan := room.plan(), partitions=plan.partitions[:1]))
    more = replace(room.journal.partitions(run_id)[0], partition=1)
    room.journal.note(run_id, [more])
    room.execution(run_id).execute()
    first, second = room.journal.partitions(run_id)
    assert (first.state, second.state, second.error) == ("done", "not_done", "not-planned")
    assert [targets for _, targets, _ in room.live.sent] == [{first.key: 60}]
    room.journal.close()
