"""A snapshot that saw less than the one before it never makes a plan freer."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.domain.model import Group, GroupOffset, TopicPartition
from dashboard.purge.evidence import memory
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.plan import PlannedPartition
from dashboard.purge.plan.targets import parse_target
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build
from tests.support.cluster import FakeCluster
from tests.support.collected import NOTHING_HIDDEN
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.test_memory_age import SETTINGS

# By 6, 55, 65 and 118 a plan was freer while topics without an id counted by their name.
SEEDS = [*range(10), 55, 65, 118]
ORPHAN = Group("g", "classic", "Empty", 0)


@dataclass(frozen=True)
class Moment:
    """What a cluster shows: topics that the metadata names, by id; groups, and their offsets."""

    ids: Mapping[str, str | None]
    groups: Mapping[str, Group] = field(default_factory=dict)
    offsets: Mapping[tuple[str, str, int], int] = field(default_factory=dict)


def write(store: ClusterStore, minutes: int, seen: Moment) -> None:
    """As collecting writes it: a topic that no metadata named has neither id nor `is_internal`."""
    at = NOW - timedelta(minutes=minutes)
    writer = store.begin("snapshots", at)
    names = list(dict.fromkeys([*seen.ids, *(topic for _, topic, _ in seen.offsets)]))
    topics = {
        "topic_no": list(range(len(names))), "topic": names,
        "topic_id": [seen.ids.get(name) for name in names],
        "is_internal": [False if name in seen.ids else None for name in names],
    }  # fmt: skip
    offsets = {
        "group_id": [group for group, _, _ in seen.offsets],
        "topic_no": [names.index(topic) for _, topic, _ in seen.offsets],
        "partition": [partition for _, _, partition in seen.offsets],
        "committed_offset": list(seen.offsets.values()), "taken_at": [at] * len(seen.offsets),
    }  # fmt: skip
    listed = list(seen.groups.values())
    groups = {name: [getattr(g, name) for g in listed] for name in ("group_id", "type", "state",
              "members", "subscribed", "patterns")}  # fmt: skip
    for name, rows in (("topics", topics), ("group_offsets", offsets), ("groups", groups)):
        writer.write(name, build(SNAPSHOT_TABLES[name], rows if any(rows.values()) else {}))
    writer.commit(0.1, {**NOTHING_HIDDEN, "clock_ahead_seconds": 0.0})


def live(now: Moment) -> FakeCluster:
    """The cluster as it is now; group `h` has read 95 of both partitions."""
    made = FakeCluster(2)
    made.topic_id, made.offsets_of = now.ids[TOPIC], {"h": {0: 95, 1: 95}}
    own = tuple(GroupOffset(*key, offset) for key, offset in now.offsets.items())
    made.others = (tuple(now.groups.values()), own)
    return made


def planned(store: ClusterStore, now: Moment) -> tuple[PlannedPartition, ...]:
    asked = PlanRequest((TOPIC,), parse_target("committed"), by="ann")
    return read_live(live(now), SETTINGS, store, asked, now=NOW).plan([]).partitions


def freed(store: ClusterStore, now: Moment) -> list[int]:
    """Up to where each partition may be purged."""
    return [(p.target_offset or 0) if p.free else 0 for p in planned(store, now)]


@pytest.mark.parametrize("named", [{}, {"payments": "id-p"}])
def test_a_broker_that_names_no_topic_makes_no_known_id_unknown(
    tmp_path: Path, named: dict[str, str | None]
) -> None:
    """Its copy of the ACLs was lost; then `orders` was made anew, and `g` had read the old one."""
    store = ClusterStore(Store(str(tmp_path)), "cluster-1")
    read = {("g", TOPIC, 0): 90, ("g", TOPIC, 1): 90}
    write(store, 120, Moment({TOPIC: "id-1", "payments": "id-p"}, {"g": ORPHAN}, read))
    write(store, 60, Moment(named, {"g": ORPHAN}, read))
    now = Moment({TOPIC: "id-2", "payments": "id-p"})
    write(store, 10, now)
    assert {kept.topic_id for kept in memory.remembered(store, [TOPIC])} == {"id-1"}
    found = planned(store, now)
    assert [[guard.name for guard in p.guards] for p in found] == [["no-committed-offset"]] * 2


def test_what_brokers_without_ids_showed_is_not_of_a_topic_that_has_one(tmp_path: Path) -> None:
    """Upgraded since from before 2.8: `orders` may have been made anew on the way."""
    store = ClusterStore(Store(str(tmp_path)), "cluster-1")
    write(store, 120, Moment({TOPIC: None}, {"g": ORPHAN}, {("g", TOPIC, 0): 90}))
    now = Moment({TOPIC: "id-2"})
    write(store, 10, now)
    assert [kept.topic_id for kept in memory.remembered(store, [TOPIC])] == [None]
    assert freed(store, now) == [0, 0]


def test_a_group_of_which_some_members_told_their_topics_may_read_any(tmp_path: Path) -> None:
    """One member's assignment is in words of its own, another one's is told; then it crashes."""
    store = ClusterStore(Store(str(tmp_path)), "cluster-1")
    ids = {TOPIC: "id-1", "payments": "id-p"}
    audit = Group("audit", "classic", "Stable", None, subscribed=("payments",))
    write(store, 60, Moment(ids, {"audit": audit}))
    write(store, 10, Moment(ids))
    found = planned(store, Moment(ids))
    assert [[guard.name for guard in p.guards] for p in found] == [["no-committed-offset"]] * 2
    write(store, 9, Moment(ids, {"audit": replace(audit, members=2)}))  # by now all of it is told
    write(store, 8, Moment(ids))
    assert freed(store, Moment(ids)) == [95, 95]


def _group(dice: random.Random, name: str) -> tuple[Group, dict[tuple[str, str, int], int]]:
    state = dice.choice(["Empty", "Stable", "PreparingRebalance"])
    topics = (TOPIC, "payments")
    asked = [topic for topic in topics if state == "Stable" and dice.random() < 0.5]
    group = Group(
        name,
        dice.choice(["classic", "consumer"]),
        state,
        0 if state == "Empty" else dice.choice([1, None]),
        tuple(TopicPartition(topic, 0) for topic in asked if dice.random() < 0.5),
        subscribed=tuple(asked),
        patterns=(".*",) if state == "Stable" and dice.random() < 0.1 else (),
    )
    places = [(name, topic, at) for topic in topics for at in (0, 1) if dice.random() < 0.7]
    return group, {place: dice.choice([0, 30, 60, 90]) for place in places}


def _next(dice: random.Random, before: Moment) -> Moment:
    """Groups stay, go or come; the topic is made anew now and then, its commits go with it."""
    stay = [name for name in before.groups if dice.random() < 0.3]
    ids, groups = dict(before.ids), {name: before.groups[name] for name in stay}
    offsets = {key: at for key, at in before.offsets.items() if key[0] in stay}
    if dice.random() < 0.6:
        ids[TOPIC] = f"id-{int(str(ids[TOPIC])[3:]) + 1}"
        offsets = {key: at for key, at in offsets.items() if key[1] != TOPIC}
    for name in "gk":
        if dice.random() < 0.4:
            groups[name], own = _group(dice, name)
            offsets = {key: at for key, at in offsets.items() if key[0] != name} | own
    return Moment(ids, groups, offsets)


def _less(dice: random.Random, seen: Moment) -> Moment:
    """The same moment, seen by who does not see all of it."""
    how = {dice.choice(["all ids", "one id", "group", "offsets", "members"]) for _ in range(2)}
    ids, groups, offsets = dict(seen.ids), dict(seen.groups), dict(seen.offsets)
    if "all ids" in how:
        ids = {}
    if "one id" in how:
        ids.pop(TOPIC, None)
    if "group" in how and groups:
        gone = dice.choice(sorted(groups))
        del groups[gone]
        offsets = {key: at for key, at in offsets.items() if key[0] != gone}
    if "offsets" in how:
        offsets = {key: at for key, at in offsets.items() if dice.random() < 0.5}
    if "members" in how:
        unseen = {"members": None, "assigned": (), "subscribed": (), "patterns": ()}
        groups = {name: replace(g, **unseen) for name, g in groups.items()}  # type: ignore[arg-type]
    return Moment(ids, groups, offsets)


@pytest.mark.further_but("0")
@pytest.mark.parametrize("seed", SEEDS)
def test_a_snapshot_that_repeats_less_makes_no_plan_freer(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    past = [Moment({TOPIC: "id-1", "payments": "id-p", "__consumer_offsets": "id-c"})]
    for _ in range(dice.choice([3, 4])):
        past.append(_next(dice, past[-1]))
    reading = [at for at, seen in enumerate(past[:-1]) if any(k[1] == TOPIC for k in seen.offsets)]
    after = dice.choice(reading or [0])
    less = _less(dice, past[after])
    found = []
    for name in ("all", "less"):
        store = ClusterStore(Store(str(tmp_path / name)), "cluster-1")
        for number, seen in enumerate(past):
            write(store, 300 - 20 * number, seen)
            if name == "less" and number == after:
                write(store, 290 - 20 * number, less)
        found.append(freed(store, past[-1]))
    assert all(then >= now for then, now in zip(*found, strict=True)), found
