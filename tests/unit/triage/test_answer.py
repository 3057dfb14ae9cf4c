"""What a triage chooses, plans, leaves to the operator's word, and never offers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import RefusedError, StoreError, UsageError
from dashboard.domain.model import LogDir, TopicPartition
from dashboard.purge.plan.claims import GroupClaim
from dashboard.purge.plan.guards import Waive
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.triage.answer import Triage, triage_live
from dashboard.triage.pieces import DECLARED, UNDECLARED, WAIVED, Here
from dashboard.triage.selection import LIKELY, SHORT, SURE, Question
from dashboard.triage.words import need, sentences, triage_json
from dashboard.views import headline
from tests.unit.purge.facts_of import NOW
from tests.unit.triage.world import (
    D1,
    D2,
    MIB,
    SEGMENT,
    Part,
    World,
    ask,
    read_to_the_end,
    settings_of,
)

HOUR = timedelta(hours=1)


def chosen(answer: Triage) -> dict[tuple[str, int], int]:
    return {tuple(c.key): c.tier for c in answer.chosen}


def planned(answer: Triage) -> dict[tuple[str, int], int | None]:
    assert answer.plan is not None
    return {tuple(p.key): p.target_offset for p in answer.plan.free_partitions}


def growing(per_hour: int | None, replicas: int | None = None) -> dict[str, list[dict[str, Any]]]:
    row = {"topic": None, "broker_id": 2, "log_dir": D1, "used_bytes_per_hour": per_hour,
           "growth_per_hour": replicas}  # fmt: skip
    of_a_topic = row | {"topic": "a", "used_bytes_per_hour": None, "growth_per_hour": 1 << 40}
    return {"growth": [of_a_topic, row]}


def blocker(group: str, topic: str) -> dict[str, Any]:
    return {"group_id": group, "topic": topic, "bytes_held_alone": 9, "bytes_freed_if_waived": 9,
            "members": 0, "group_state": "Empty", "last_commit_at": NOW - 960 * HOUR}  # fmt: skip


def test_the_fewest_partitions_on_that_disk_are_planned(tmp_path: Path) -> None:
    world = World({
        ("small", 0): read_to_the_end(1), ("large", 0): read_to_the_end(8),
        ("middle", 0): read_to_the_end(4), ("large", 1): read_to_the_end(3),
    })  # fmt: skip
    answer = ask(tmp_path, world, 10 * SEGMENT, "small", "middle", "large")
    assert answer.met
    assert answer.sure == SURE
    # The largest one, and the smallest that makes up the rest.
    assert chosen(answer) == {("large", 0): DECLARED, ("large", 1): DECLARED}
    assert planned(answer) == {("large", 0): 90, ("large", 1): 40}
    assert answer.here == Here(11 * SEGMENT, 11 * SEGMENT, 11 * SEGMENT)


def test_only_bytes_on_that_disk_count(tmp_path: Path) -> None:
    world = World({
        ("elsewhere", 0): read_to_the_end(50, replicas=(1, 3)),
        ("other-dir", 0): read_to_the_end(50, log_dir=D2),
        ("here", 0): read_to_the_end(2),
    })  # fmt: skip
    world.dirs += [LogDir(b, D2, 10_000 * MIB, 5_000 * MIB) for b in (1, 2, 3)]
    answer = ask(tmp_path, world, SEGMENT, "elsewhere", "other-dir", "here")
    assert chosen(answer) == {("here", 0): DECLARED}
    assert answer.here.low == 2 * SEGMENT
    assert "400.0 MiB on other disks" in " ".join(sentences(answer))


def test_the_fullest_log_dir_is_meant_unless_one_is_named(tmp_path: Path) -> None:
    world = World({
        ("a", 0): read_to_the_end(3), ("b", 0): read_to_the_end(3, log_dir=D2),
    })  # fmt: skip
    world.dirs = [LogDir(2, D1, 1000, 500), LogDir(2, D2, 1000, 100)]
    assert chosen(ask(tmp_path / "x", world, SEGMENT, "a", "b")) == {("b", 0): DECLARED}
    named = ask(tmp_path / "y", world, SEGMENT, "a", "b", log_dir=D1)
    assert chosen(named) == {("a", 0): DECLARED}
    with pytest.raises(UsageError) as raised:
        ask(tmp_path / "z", world, SEGMENT, "a", "b", log_dir="/data/d9")
    assert raised.value.code == "LOG_DIR_NOT_FOUND"


def test_undeclared_topics_are_named_and_taken_only_for_a_reason(tmp_path: Path) -> None:
    world = World({("safe", 0): read_to_the_end(2), ("unknown", 0): read_to_the_end(9)})
    without = ask(tmp_path / "x", world, 6 * SEGMENT, "safe")
    assert chosen(without) == {("safe", 0): DECLARED}
    assert not without.met
    assert without.sure == SHORT
    assert "--accept-undeclared" in " ".join(sentences(without))
    accepted = ask(tmp_path / "y", world, 6 * SEGMENT, "safe", accept_undeclared="asked all")
    assert accepted.met
    assert chosen(accepted)[("unknown", 0)] == UNDECLARED
    assert accepted.plan is not None
    assert [(o.name, o.reason) for o in accepted.plan.overrides] == [
        ("readers-undeclared", "asked all")
    ]


def test_an_accepted_reason_is_not_used_where_safe_bytes_are_enough(tmp_path: Path) -> None:
    world = World({("safe", 0): read_to_the_end(5), ("unknown", 0): read_to_the_end(50)})
    answer = ask(tmp_path, world, 4 * SEGMENT, "safe", accept_undeclared="asked all")
    assert chosen(answer) == {("safe", 0): DECLARED}
    assert answer.plan is not None
    assert answer.plan.overrides == ()


def held() -> World:
    part = Part(10, commits={"app": 110, "old": 30})
    world = World({("held", 0): part, ("free", 0): read_to_the_end(2)})
    world.dead = {"old": 0}
    return world


def test_a_dead_groups_waiver_is_offered_with_its_bytes_here(tmp_path: Path) -> None:
    answer = ask(
        tmp_path, held(), 9 * SEGMENT, "held", "free", tables={"blockers": [blocker("old", "held")]}
    )
    assert not answer.met
    assert planned(answer) == {("held", 0): 30, ("free", 0): 30}
    (offer,) = answer.offers
    # Of 10 whole segments 3 are free as it is.
    assert (offer.group_id, offer.here.low, offer.partitions) == ("old", 7 * SEGMENT, 1)
    assert '--waive "old=why"' in " ".join(sentences(answer))
    assert answer.plan is not None
    assert answer.plan.waivers == ()


@pytest.mark.further
def test_a_waiver_that_was_given_is_used_only_where_it_is_needed(tmp_path: Path) -> None:
    tables = {"blockers": [blocker("old", "held")]}
    given: dict[str, Any] = {"tables": tables, "waive": (Waive("old", "gone"),)}
    enough = ask(tmp_path / "x", held(), 4 * SEGMENT, "held", "free", **given)
    assert enough.met
    assert enough.plan is not None
    assert enough.plan.waivers == ()
    more = ask(tmp_path / "y", held(), 9 * SEGMENT, "held", "free", **given)
    assert more.met
    assert chosen(more) == {("held", 0): WAIVED}
    assert planned(more) == {("held", 0): 110}
    assert more.plan is not None
    assert [w.group_id for w in more.plan.waivers] == ["old"]
    assert more.offers == ()


def test_a_waiver_moves_no_target_that_is_enough_as_it_is(tmp_path: Path) -> None:
    world = World({
        ("held", 0): Part(10, commits={"app": 110, "old": 30}),
        ("held", 1): Part(10, commits={"app": 110, "old": 80}),
    })  # fmt: skip
    world.dead = {"old": 0}
    tables = {"blockers": [blocker("old", "held")]}
    answer = ask(
        tmp_path, world, 16 * SEGMENT, "held", tables=tables, waive=(Waive("old", "gone"),)
    )
    assert answer.met
    assert planned(answer) == {("held", 0): 110, ("held", 1): 80}


def test_a_living_group_is_neither_offered_nor_waived(tmp_path: Path) -> None:
    world = held()
    for members in (1, None):
        world.dead = {"old": members}
        tables = {"blockers": [blocker("old", "held")]}
        folder = tmp_path / str(members)
        assert ask(folder, world, 9 * SEGMENT, "held", "free", tables=tables).offers == ()
        with pytest.raises(RefusedError) as raised:
            ask(folder / "w", world, SEGMENT, "held", tables=tables, waive=(Waive("old", "gone"),))
        assert raised.value.code == "GROUP_ALIVE"


def test_a_misspelt_group_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        ask(tmp_path, held(), SEGMENT, "held", waive=(Waive("odl", "gone"),))
    assert raised.value.code == "GROUP_NOT_FOUND"


def test_other_guards_are_told_and_never_planned(tmp_path: Path) -> None:
    world = World({("behind", 0): read_to_the_end(20), ("fine", 0): read_to_the_end(1)})
    world.parts[TopicPartition("behind", 0)].isr = (1, 3)
    answer = ask(tmp_path, world, 5 * SEGMENT, "behind", "fine", accept_undeclared="all may go")
    assert chosen(answer) == {("fine", 0): DECLARED}
    assert [(tuple(b.key), b.guards) for b in answer.blocked] == [
        (("behind", 0), ("under-replicated",))
    ]
    assert "under-replicated: 1 partition" in " ".join(sentences(answer))


def test_no_bytes_are_told_of_a_topic_with_remote_storage(tmp_path: Path) -> None:
    """Its curve is of local bytes: a purge below the local log start takes nothing of any disk."""
    world = World({("tiered", 0): read_to_the_end(20), ("fine", 0): read_to_the_end(1)})
    world.configs_of["tiered"] = {"remote.storage.enable": "true"}
    answer = ask(tmp_path, world, 5 * SEGMENT, "tiered", "fine")
    assert chosen(answer) == {("fine", 0): DECLARED}
    assert answer.blocked == ()
    assert "remote-storage" not in " ".join(sentences(answer))


def test_offsets_are_those_of_now_not_of_the_analysis(tmp_path: Path) -> None:
    world = World({("t", 0): read_to_the_end(10)})
    # A group that began since reads from the middle: the analysis did not know it.
    world.parts_of[TopicPartition("t", 0)].commits["new"] = 40
    answer = ask(tmp_path, world, 9 * SEGMENT, "t")
    assert planned(answer) == {("t", 0): 40}
    assert answer.here.low == 4 * SEGMENT
    assert answer.plan is not None
    assert GroupClaim("new", 40) in answer.plan.partitions[0].groups


def test_what_is_written_meanwhile_is_needed_too(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(4), ("b", 0): read_to_the_end(3)})
    calm = ask(tmp_path / "x", world, 4 * SEGMENT, "a", "b", tables=growing(-5))
    assert (calm.needed_bytes, len(calm.chosen)) == (4 * SEGMENT, 1)
    grown = ask(tmp_path / "y", world, 4 * SEGMENT, "a", "b", tables=growing(4 * SEGMENT))
    assert grown.written_bytes == 2 * SEGMENT
    assert (grown.needed_bytes, len(grown.chosen)) == (6 * SEGMENT, 2)
    # 1000 MiB are left, 400 MiB an hour come: 2.5 hours.
    assert grown.disk.full_in == 2.5 * HOUR
    of_replicas = ask(tmp_path / "z", world, SEGMENT, tables=growing(None, 4 * SEGMENT))
    assert of_replicas.written_bytes == 2 * SEGMENT


def test_a_growth_that_is_not_known_is_said_and_adds_nothing(tmp_path: Path) -> None:
    answer = ask(tmp_path, World({("a", 0): read_to_the_end(4)}), SEGMENT, "a")
    assert answer.written_bytes is None
    assert answer.needed_bytes == SEGMENT
    assert "not known yet" in need(answer)


def test_findings_are_as_old_as_their_snapshot_and_not_as_its_analysis(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(4)})
    fresh = ask(tmp_path / "x", world, SEGMENT, "a", age=timedelta(seconds=120))
    assert fresh.age.unusable == ""
    assert sentences(fresh)[0].startswith("Bytes are known by the snapshot of 2 min ago")
    old = ask(tmp_path / "y", world, SEGMENT, "a", age=10 * HOUR)
    told = triage_json(old)
    assert (told["taken_at"], told["age_seconds"]) == (NOW - 10 * HOUR, 36_000)
    assert str(told["unusable"]) in sentences(old)[1].replace("The newest", "the newest")


def test_the_growth_of_findings_that_are_too_old_adds_nothing(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(4)})
    tables = growing(4 * SEGMENT)
    answer = ask(tmp_path, world, SEGMENT, "a", tables=tables, age=10 * HOUR)
    assert (answer.written_bytes, answer.needed_bytes) == (None, SEGMENT)
    assert answer.disk.full_in is None
    assert "How fast that disk fills is not known:" in need(answer)
    # The bytes of segments are what they were.
    assert answer.met


@pytest.mark.parametrize("hours", [9, 100, 24 * 400])
def test_a_full_disk_is_as_far_off_as_on_overview(tmp_path: Path, hours: int) -> None:
    world = World({("a", 0): read_to_the_end(4)})
    world.dirs = [LogDir(2, D1, 100 << 40, hours << 30)]
    answer = ask(tmp_path, world, SEGMENT, "a", tables=growing(1 << 30))
    said = f"at that pace it is {headline.full_in(hours / 24)}"
    assert said in " ".join(sentences(answer))


def test_nothing_safe_gives_no_plan(tmp_path: Path) -> None:
    answer = ask(tmp_path, World({("a", 0): Part(5, commits={"app": 3})}), SEGMENT, "a")
    assert (answer.plan, answer.met) == (None, False)
    assert "Nothing there can be purged safely" in " ".join(sentences(answer))


def test_one_topic_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    world = World({("gone", 0): read_to_the_end(9), ("a", 0): read_to_the_end(9)})
    world.topic_errors = {"gone": "UNKNOWN_TOPIC_OR_PARTITION"}
    answer = ask(tmp_path, world, SEGMENT, "gone", "a")
    assert (answer.met, answer.unread) == (True, ("gone",))
    assert "Not read, so not weighed: gone" in " ".join(sentences(answer))


def test_why_the_list_of_groups_is_incomplete_is_said(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(9)})
    world.incomplete = ("offsets of group app cannot be read: GROUP_AUTHORIZATION_FAILED",)
    answer = ask(tmp_path, world, SEGMENT, "a")
    assert (answer.plan, answer.incomplete) == (None, world.incomplete)
    assert world.incomplete[0] in " ".join(sentences(answer))


@pytest.mark.parametrize("need", [5, 20])
def test_an_offline_log_dir_is_not_purged_and_says_what_to_do(tmp_path: Path, need: int) -> None:
    world = World({("a", 0): read_to_the_end(9)})
    world.dirs = [LogDir(2, D1, None, None, "KAFKA_STORAGE_ERROR")]
    answer = ask(tmp_path, world, need * SEGMENT, "a")
    assert (answer.disk.obstacle, answer.plan, answer.met) == ("LOG_DIR_OFFLINE", None, False)
    assert "KAFKA_STORAGE_ERROR" in sentences(answer)[-1]


def test_a_log_dir_that_vanished_is_not_weighed(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(9)})
    world.dirs = [LogDir(2, D1, None, None, "UNKNOWN_SERVER_ERROR")]
    answer = ask(tmp_path, world, SEGMENT, "a")
    assert (answer.disk.obstacle, answer.plan) == ("BROKER_SILENT", None)


def test_beside_an_offline_log_dir_the_other_one_is_purged(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(9), ("b", 0): read_to_the_end(9, log_dir=D2)})
    world.dirs = [LogDir(2, D1, None, None, "KAFKA_STORAGE_ERROR"), LogDir(2, D2, 1000, 10)]
    answer = ask(tmp_path, world, SEGMENT, "a", "b")
    assert chosen(answer) == {("b", 0): DECLARED}
    assert answer.disk.offline == (D1,)
    assert f"log dir {D1} is offline" in " ".join(sentences(answer))


def test_a_broker_that_is_down_or_silent_is_not_purged(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(9)})
    world.dir_errors = {2: "REQUEST_TIMED_OUT"}
    assert ask(tmp_path / "x", world, SEGMENT, "a").disk.obstacle == "BROKER_SILENT"
    world.alive = {1, 3}
    assert ask(tmp_path / "y", world, SEGMENT, "a").disk.obstacle == "BROKER_DOWN"


def test_a_service_that_hides_log_dirs_is_triaged_by_the_analysis(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(9)})
    world.dir_errors = {2: "CLUSTER_AUTHORIZATION_FAILED"}
    answer = ask(tmp_path, world, SEGMENT, "a")
    assert answer.met
    assert "does not list its log dirs" in " ".join(sentences(answer))


def test_hidden_log_dirs_are_told_apart_by_the_analysis(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(3), ("b", 0): read_to_the_end(9, log_dir=D2)})
    world.dir_errors = {2: "CLUSTER_AUTHORIZATION_FAILED"}
    answer = ask(tmp_path, world, SEGMENT, "a", "b")
    assert (answer.disk.log_dir, chosen(answer)) == (D2, {("b", 0): DECLARED})


def test_a_broker_that_nobody_knows_and_a_store_without_analysis_are_errors(
    tmp_path: Path,
) -> None:
    world = World({("a", 0): read_to_the_end(9)})
    with pytest.raises(UsageError) as raised:
        ask(tmp_path, world, SEGMENT, "a", broker=9)
    assert raised.value.code == "BROKER_NOT_FOUND"
    empty = ClusterStore(Store(str(tmp_path / "none")), world.id)
    with pytest.raises(StoreError) as missing:
        triage_live(
            world,  # type: ignore[arg-type]
            settings_of(tmp_path),
            empty,
            Question(2, 1, HOUR),
            now=NOW,
        )
    assert missing.value.code == "NO_ANALYSIS"


@pytest.mark.parametrize(
    "change", [{"need_bytes": 0}, {"within": timedelta(0)}, {"accept_undeclared": " "}]
)
def test_a_question_that_asks_nothing_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Question(**{"broker_id": 1, "need_bytes": 1, "within": HOUR, **change})


@pytest.mark.further
def test_uncertain_bytes_name_what_makes_them_certain(tmp_path: Path) -> None:
    world = World({("a", 0): read_to_the_end(9)})
    rough = [
        {"topic": "a", "partition": 0, "broker_id": 2, "log_dir": D1, "offset": offset,
         "bytes_below": size, "method": "proportional", "segment_bytes": SEGMENT}
        for offset, size in ((0, 0), (100, 10 * SEGMENT))
    ]  # fmt: skip
    world.parts_of[TopicPartition("a", 0)].commits["slow"] = 50
    answer = ask(tmp_path, world, 4 * SEGMENT, "a", tables={"curves": rough})
    assert answer.here.low < answer.here.likely < answer.here.high
    assert answer.sure == LIKELY
    assert not answer.met
    text = " ".join(sentences(answer))
    assert "Likely enough, not surely" in text
    assert "exact to the segment" in text
