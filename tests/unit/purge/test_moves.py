"""A waived group's offset moves forward, to the target, from where the plan saw it, or not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.canonical import canonical, digest
from dashboard.core.errors import PlanError, RefusedError, UsageError
from dashboard.domain.model import Group
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.guards import Waiver
from dashboard.purge.plan.moves import MoveRow, judged, planned_moves, refuse_alive, skipped_records
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.preview import preview
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.plan.targets import parse_target
from tests.support.examples import examples
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, facts
from tests.unit.purge.test_plan import plan_of, worlds

MOVE = MoveRow("dead", TOPIC, 0, 10, 60)
DEAD = Group("dead", "classic", "Empty", 0)
OFFSETS = st.integers(0, 100)


def moving_plan(**change: Any) -> Plan:
    found = facts(claims={0: {"dead": 10, "live": 60}}, **change)
    waiver = Waiver("dead", "gone", "ann", NOW, move=True)
    return plan_of(found, {KEY: ResolvedTarget(60)}, waivers=[waiver])


def test_the_plan_names_group_partition_from_and_to() -> None:
    plan = moving_plan()
    assert planned_moves(plan) == (MOVE,)
    view: Any = preview(plan, NOW).to_json()
    assert view["moves"] == [
        {"group_id": "dead", "topic": TOPIC, "partition": 0, "from_offset": 10, "to_offset": 60}
    ]
    assert [w["move"] for w in view["waivers"]] == [True]


def test_a_waiver_that_asks_for_no_move_leaves_the_plans_bytes_as_they_were() -> None:
    found = facts(claims={0: {"dead": 10}})
    plan = plan_of(found, {KEY: ResolvedTarget(60)}, waivers=[Waiver("dead", "gone", "ann", NOW)])
    assert '"move"' not in plan.to_json_text()
    assert planned_moves(plan) == ()
    assert Plan.from_json_text(plan.to_json_text(), "plan.json") == plan


def test_an_offset_that_a_snapshot_alone_remembers_is_not_moved() -> None:
    assert planned_moves(moving_plan(remembered=frozenset({"dead"}))) == ()


def test_a_guarded_partition_moves_nobody() -> None:
    assert planned_moves(moving_plan(incomplete=("broker 2 is silent",))) == ()


@examples(60)
@given(worlds())
def test_every_move_goes_forward_to_the_target_of_a_free_partition(
    world: tuple[Any, Any, list[Waiver]],
) -> None:
    found, resolved, waivers = world
    moved = [Waiver(w.group_id, w.reason, w.by, w.at, move=True) for w in waivers]
    plan = plan_of(found, resolved, waivers=moved)
    again = Plan.from_json_text(plan.to_json_text(), "plan.json")
    assert (again, again.sha256) == (plan, plan.sha256)
    free = {p.key: p for p in plan.free_partitions}
    for move in planned_moves(plan):
        assert move.group_id in plan.waived_groups
        assert move.from_offset < move.to_offset == free[move.key].target_offset
        assert (move.group_id, move.from_offset) in {
            (c.group_id, c.committed_offset) for c in free[move.key].groups
        }


@pytest.mark.parametrize("value", [False, 1, "yes", None])
def test_a_rehashed_plan_whose_move_is_no_plain_true_is_refused(value: Any) -> None:
    document = json.loads(moving_plan().to_json_text())
    document.pop("sha256")
    document["waivers"][0]["move"] = value
    text = canonical({**document, "sha256": digest(document)})
    with pytest.raises(PlanError):
        Plan.from_json_text(text, "plan.json")


def test_a_move_needs_a_waiver() -> None:
    with pytest.raises(UsageError) as refused:
        PlanRequest((TOPIC,), parse_target("committed"), move_waived=True)
    assert refused.value.code == "MOVE_WITHOUT_WAIVER"


@pytest.mark.parametrize(("members", "said"), [(2, "2 members"), (None, "cannot be read")])
def test_a_living_group_cannot_be_moved(members: int | None, said: str) -> None:
    groups = {"g": Group("g", "classic", "Stable", members)}
    with pytest.raises(RefusedError, match=said) as refused:
        refuse_alive(groups, {"g"})
    assert (refused.value.code, refused.value.exit_code) == ("MOVE_GROUP_ALIVE", 3)
    refuse_alive(groups, {"another"})


@pytest.mark.parametrize(
    ("members", "committed", "state", "error"),
    [
        (0, 10, "pending", None),
        (0, 60, "moved", None),
        (3, 70, "moved", None),
        (2, 10, "refused", "GROUP_ALIVE"),
        (None, 10, "refused", "GROUP_ALIVE"),
        (0, 9, "refused", "OFFSET_MOVED_BACK"),
        (0, 11, "refused", "OFFSET_CHANGED"),
        (0, None, "refused", "GROUP_OFFSET_GONE"),
    ],
)
def test_what_was_read_decides_the_move(
    members: int | None, committed: int | None, state: str, error: str | None
) -> None:
    found = judged(MOVE, Group("dead", "classic", "Empty", members), committed)
    assert (found.state, found.error) == (state, error)


def test_a_group_that_is_gone_is_not_made_anew() -> None:
    assert judged(MOVE, None, None).error == "GROUP_OFFSET_GONE"


def test_a_move_that_never_takes_is_given_up_with_kafkas_reason() -> None:
    stuck = MoveRow("dead", TOPIC, 0, 10, 60, "unknown", "NOT_COORDINATOR", attempts=4)
    found = judged(stuck, DEAD, 10)
    assert (found.state, found.error) == ("refused", "NOT_COORDINATOR")


@given(OFFSETS, OFFSETS, st.one_of(st.none(), OFFSETS), st.sampled_from([0, 1, None]))
def test_only_an_empty_group_at_the_planned_offset_is_ever_sent(
    start: int, way: int, committed: int | None, members: int | None
) -> None:
    move = MoveRow("dead", TOPIC, 0, start, start + way + 1)
    found = judged(move, Group("dead", "classic", "Empty", members), committed)
    assert (found.state == "pending") == (members == 0 and committed == move.from_offset)
    assert (found.state == "moved") == (committed is not None and committed >= move.to_offset)


def test_records_that_came_back_name_the_groups_that_will_skip_them() -> None:
    moved = MoveRow("dead", TOPIC, 0, 10, 60, "moved", attempts=1)
    assert skipped_records([moved], KEY) == "group dead was moved to 60 and will skip them"
    assert skipped_records([MOVE], KEY) is None


def test_a_share_group_is_not_moved_by_a_commit() -> None:
    with pytest.raises(RefusedError) as refused:
        refuse_alive({"s": Group("s", "share", "Empty", 0)}, {"s"})
    assert (refused.value.code, refused.value.exit_code) == ("MOVE_SHARE_GROUP", 3)
