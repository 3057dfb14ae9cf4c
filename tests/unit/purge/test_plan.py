"""A plan is safe, survives its file byte for byte, and shows what was changed in it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from dashboard.core.canonical import canonical, digest
from dashboard.core.errors import PlanError, RefusedError
from dashboard.domain.model import Group, TopicPartition
from dashboard.purge.plan.guards import Override, Waiver
from dashboard.purge.plan.plan import Estimate, Plan, build
from dashboard.purge.plan.preview import preview
from dashboard.purge.plan.resolve import ResolvedTarget, resolve
from dashboard.purge.plan.targets import Target, parse_target
from tests.support.examples import examples
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, declared, facts, partition

OFFSETS = st.integers(0, 8)


def plan_of(found: Any, resolved: Any, **change: Any) -> Plan:
    given_ = {
        "target": "committed", "declarations": {TOPIC: declared()}, "estimates": {},
        "analysis_id": None, "most_partitions": 1000, "created_by": "ann", "now": NOW,
        "expires_after": timedelta(hours=1), **change,
    }  # fmt: skip
    return build(found, resolved, **given_)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Any, Any, list[Waiver]]:
    """Partitions with groups, a kind of target, and some waived groups.

    Few offsets and few gaps, so that targets often meet commits and ends exactly.
    """
    names = sorted(draw(st.sets(st.sampled_from(["a", "b", "ü", "d"]), min_size=1)))
    partitions, claims = [], {}
    for number in range(draw(st.integers(1, 3))):
        start, stable, high = sorted([draw(OFFSETS), draw(OFFSETS), draw(OFFSETS)])
        partitions.append(partition(start, stable, high, number))
        without = draw(st.sampled_from([*names, None, None, None]))
        claims[number] = {g: draw(OFFSETS) for g in names if g != without}
    keys = [p.key for p in partitions]
    members = Group("member", "consumer", "Stable", 1, tuple(draw(st.sampled_from([[], keys]))))
    found = facts(*partitions, claims=claims, groups=(members,))
    waived = draw(st.sets(st.sampled_from([*names, "member"])))
    typed = draw(st.fixed_dictionaries({key: st.sampled_from([-1, *range(9)]) for key in keys}))
    target = draw(
        st.sampled_from([
            parse_target("committed"), parse_target("high-watermark"),
            parse_target(f"offset:{draw(OFFSETS)}"), Target("file", offsets=typed),
        ])
    )  # fmt: skip
    resolved = resolve(
        None,  # type: ignore[arg-type]
        found, target, chosen_groups=draw(st.sampled_from([(), tuple(names[:1])])), waived=waived,
        declarations={TOPIC: declared()}, now=NOW,
    )  # fmt: skip
    return found, resolved, [Waiver(g, "gone", "ann", NOW) for g in sorted(waived)]


@examples(300)
@given(worlds())
def test_no_free_partition_passes_a_group_an_open_transaction_or_the_log_start(
    world: tuple[Any, Any, list[Waiver]],
) -> None:
    found, _, waivers = world
    waived = {w.group_id for w in waivers}
    for p in free_of(world):
        assert p.target_offset is not None
        assert p.log_start_offset is not None
        assert p.target_offset >= p.log_start_offset
        if p.target_offset == p.log_start_offset:
            continue  # nothing is deleted
        assert p.target_offset <= p.last_stable_offset <= p.high_watermark
        for claim in found.claims.get(p.key, ()):
            assert claim.group_id in waived or claim.committed_offset >= p.target_offset


def free_of(world: tuple[Any, Any, list[Waiver]]) -> tuple[Any, ...]:
    """The partitions that a plan of this world would send; without any override."""
    found, resolved, waivers = world
    return plan_of(found, resolved, waivers=waivers).free_partitions


@pytest.mark.further
@pytest.mark.parametrize("edge", ["committed_offset", "last_stable_offset"])
def test_such_worlds_hold_targets_at_the_very_edge(edge: str) -> None:
    def at_the_edge(world: tuple[Any, Any, list[Waiver]]) -> bool:
        return any(
            p.target_offset in {getattr(p, edge, None), *(getattr(g, edge, None) for g in p.groups)}
            for p in free_of(world)
            if p.target_offset > p.log_start_offset
        )

    # Raises NoSuchExample; any world will do, the smallest one would take long to find.
    often = settings(phases=[Phase.generate], max_examples=5000)
    find(worlds(), at_the_edge, settings=often)


@examples(60)
@given(
    worlds(),
    st.text(min_size=1, max_size=20),
    st.one_of(st.none(), st.integers(0, 2**60)),
    st.lists(st.one_of(st.none(), st.integers(0, 2**60)), max_size=5),
)
def test_a_plan_survives_its_file_and_keeps_its_hash(
    world: tuple[Any, Any, list[Waiver]], reason: str, size: int | None, interval: list[int | None]
) -> None:
    found, resolved, waivers = world
    override = Override("unread-by-group", None, reason, "ann", NOW)
    estimates = {key: Estimate(size, "proportional", {1: size or 0}, *interval) for key in resolved}
    plan = plan_of(found, resolved, waivers=waivers, overrides=[override], estimates=estimates)
    text = plan.to_json_text()
    again = Plan.from_json_text(text, "plan.json")
    assert again == plan
    assert again.to_json_text() == text
    assert again.sha256 == plan.sha256
    assert json.loads(text)["sha256"] == plan.sha256
    assert plan.plan_id == plan.sha256[:16]


def free_plan(**change: Any) -> Plan:
    found = facts(claims={0: {"a": 40}})
    return plan_of(found, {KEY: ResolvedTarget(40)}, **change)


def test_the_hash_covers_everything_but_itself() -> None:
    document = json.loads(free_plan().to_json_text())
    found = document.pop("sha256")
    assert found == digest(document)
    assert '"created_by":"ü"' in free_plan(created_by="ü").to_json_text()  # UTF-8 as it is
    assert ", " not in free_plan().to_json_text()


def test_a_plan_edited_by_hand_is_refused() -> None:
    text = free_plan().to_json_text().replace('"target_offset":40', '"target_offset":90')
    with pytest.raises(RefusedError) as refused:
        Plan.from_json_text(text, "plan.json")
    assert (refused.value.code, refused.value.exit_code) == ("PLAN_EDITED", 3)


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1}, {"partitions": 3}, {"created_at": "yesterday"}, {"version": 9},
        {"partitions": [{"topic": "t"}]}, {"waivers": None},
    ],
)  # fmt: skip
def test_a_rehashed_file_that_is_no_plan_is_refused(change: dict[str, Any]) -> None:
    document = json.loads(free_plan().to_json_text()) | change
    document.pop("sha256")
    text = canonical({**document, "sha256": digest(document)})
    with pytest.raises(PlanError) as refused:
        Plan.from_json_text(text, "plan.json")
    assert refused.value.code == "PLAN_INVALID"


@pytest.mark.parametrize("offset", [-1, 4.5, True, "7"])
def test_a_rehashed_plan_with_a_target_that_is_no_offset_is_refused(offset: Any) -> None:
    document = json.loads(free_plan().to_json_text())
    document.pop("sha256")
    document["partitions"][0]["target_offset"] = offset
    text = canonical({**document, "sha256": digest(document)})
    with pytest.raises(PlanError):
        Plan.from_json_text(text, "plan.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", '{"version":1}', "NaN"])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises((PlanError, RefusedError)) as refused:
        Plan.from_json_text(text, "plan.json")
    assert "plan.json" in refused.value.message


def test_a_declaration_travels_with_its_reason_and_older_plans_have_none() -> None:
    sure = replace(declared(), reason="asked every team")
    plan = free_plan(declarations={TOPIC: sure})
    again = Plan.from_json_text(plan.to_json_text(), "plan.json")
    assert again == plan and again.declarations[0].reason == "asked every team"
    told: Any = preview(plan, NOW).to_json()
    (shown,) = told["declarations"]
    assert (shown["declared_by"], shown["reason"]) == ("ann", "asked every team")
    old = json.loads(free_plan().to_json_text())
    assert "reason" not in old["declarations"][0]
    for key in ("sha256", "unseen_readers"):
        old.pop(key)
    text = canonical({**old, "sha256": digest(old)})
    assert Plan.from_json_text(text, "old.json").unseen_readers == ()


def test_the_confirmation_counts_topics_with_a_free_partition() -> None:
    assert free_plan().confirmation == "purge orders on prod"
    guarded = plan_of(facts(), {KEY: ResolvedTarget(None)})
    assert guarded.confirmation == "purge 0 topics on prod"


def test_a_plan_expires() -> None:
    plan = free_plan()
    assert not plan.expired(NOW + timedelta(minutes=59))
    assert plan.expired(NOW + timedelta(hours=1))


def test_an_override_stands_in_the_plan_for_each_group_it_lifted() -> None:
    found = facts(claims={0: {"a": 10, "b": 20, "c": 90}})
    override = Override("unread-by-group", None, "old data", "ann", NOW)
    plan = plan_of(found, {KEY: ResolvedTarget(50)}, overrides=[override])
    assert [(o.name, o.group_id) for o in plan.overrides] == [
        ("unread-by-group", "a"),
        ("unread-by-group", "b"),
    ]
    assert plan.partitions[0].free


def test_an_override_that_names_a_group_lifts_no_other() -> None:
    found = facts(claims={0: {"a": 10, "b": 20}})
    override = Override("unread-by-group", "a", "old data", "ann", NOW)
    plan = plan_of(found, {KEY: ResolvedTarget(50)}, overrides=[override])
    assert [g.name for g in plan.partitions[0].guards] == ["unread-by-group"]
    assert "Group b" in plan.partitions[0].guards[0].reason


def test_the_preview_shows_a_waivers_loss_as_a_range() -> None:
    found = facts(claims={0: {"dead": 10, "live": 60}})
    waiver = Waiver("dead", "gone", "ann", NOW)
    view = preview(plan_of(found, {KEY: ResolvedTarget(60)}, waivers=[waiver]), NOW)
    dead, live = view.groups
    assert (dead.waived, dead.reason) == (True, "gone")
    assert (dead.loss_if_earliest, dead.loss_if_latest) == (50, 90)
    assert (live.loss_if_earliest, live.loss_if_latest) == (0, 0)
    assert view.totals.records == 60
    assert view.totals.bytes_at_once is None
    assert json.dumps(view.to_json(), allow_nan=False)


@pytest.mark.parametrize("committed", [None, 1_000_000])
def test_a_group_whose_place_nobody_can_tell_may_lose_all_that_goes(committed: int | None) -> None:
    found = facts(partition(start=20), claims={0: {"far": committed, "live": 60}})
    view = preview(
        plan_of(found, {KEY: ResolvedTarget(60)}, waivers=[Waiver("far", "gone", "ann", NOW)]), NOW
    )
    far = next(g for g in view.groups if g.group_id == "far")
    assert (far.records_unread_below_targets, far.loss_if_earliest) == (40, 40)
    assert far.loss_if_latest == 80


def test_a_plan_over_the_limit_is_guarded() -> None:
    found = facts(claims={0: {"a": 40}})
    plan = plan_of(found, {KEY: ResolvedTarget(40)}, most_partitions=0)
    assert [g.name for g in plan.partitions[0].guards] == ["over-limit"]


def test_the_same_input_gives_the_same_bytes() -> None:
    assert free_plan().to_json_text() == free_plan().to_json_text()
    assert replace(free_plan(), created_by="bob").sha256 != free_plan().sha256


def test_partitions_are_sorted() -> None:
    found = facts(partition(number=1), partition(number=0), claims={0: {"a": 9}, 1: {"a": 9}})
    resolved = {TopicPartition(TOPIC, n): ResolvedTarget(9) for n in (1, 0)}
    assert [p.partition for p in plan_of(found, resolved).partitions] == [0, 1]


def test_a_plans_text_is_canonical_with_its_own_hash_in_it() -> None:
    plan = free_plan()
    document = json.loads(plan.to_json_text())
    assert plan.to_json_text() == canonical(document)
    assert document.pop("sha256") == digest(document) == plan.sha256


def test_where_clusters_share_a_name_the_sentence_tells_them_apart() -> None:
    alone, where = free_plan(), "prod (cluster-1)"
    shared = replace(alone, name_shared=True)
    assert (alone.confirmation, shared.confirmation) == (
        "purge orders on prod", f"purge orders on {where}",
    )  # fmt: skip
    assert shared.counted_confirmation == f"purge 1 topics on {where}"
    assert "name_shared" not in alone.to_json_text(), "as earlier releases wrote it"
    assert Plan.from_json_text(shared.to_json_text(), "here") == shared
