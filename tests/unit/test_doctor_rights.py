"""Which rights are held, missing or not told of: nothing is claimed that brokers did not say."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.doctor.doctor import (
    PROBE,
    Held,
    held_rights,
    lost_features,
    rights_check,
    to_json,
)
from dashboard.domain import rights
from dashboard.domain.model import Operations, ReplicaSize, TopicPartition
from dashboard.domain.rights import Right
from tests.support.cluster import FakeCluster, FakePartition

_ALL: Operations = frozenset({"Describe", "DescribeConfigs", "Read", "Delete"})
_NONE: Operations = frozenset()
_LOOK: Operations = frozenset({"Describe", "DescribeConfigs"})


def cluster(
    *,
    visible: tuple[str, ...] = ("orders", "pays"),
    hidden: tuple[str, ...] = (),
    probe: Operations | None = None,  # "authorized, and not there"
    log_dirs_told: bool = True,
    hides_offsets: bool = False,
    **change: Any,
) -> FakeCluster:
    """A cluster with two topics and a group, where we may do all."""
    made = FakeCluster(0)
    made.alive, made.offsets_of = {1, 2}, {"g": {}}
    made.parts = {TopicPartition(t, 0): FakePartition({1: 0}) for t in visible}
    there = (*visible, *hidden)
    made.hosted = [ReplicaSize(1, "/d", t, 0, 5, 0, False) for t in there if log_dirs_told]
    made.dir_errors = {} if log_dirs_told else {1: "CLUSTER_AUTHORIZATION_FAILED"}
    denied = (*hidden, rights.OFFSETS_TOPIC) if hides_offsets else hidden
    made.topic_errors = dict.fromkeys(denied, "TOPIC_AUTHORIZATION_FAILED")
    made.cluster_rights = made.rights = made.group_rights = _ALL
    for name, value in change.items():
        setattr(made, name, value)
    made.topic_rights = {**made.topic_rights, PROBE: probe}
    return made


def held(fake: FakeCluster, right: Right) -> Held:
    return next(h for h in held_rights(fake) if h.right is right)


def test_all_rights_are_held_by_whom_the_cluster_lets_do_all() -> None:
    found = held_rights(cluster())
    assert [h.right for h in found] == list(rights.RIGHTS)
    assert {h.granted for h in found} == {True}
    assert rights_check(found).ok is True
    assert lost_features(found) == []


def test_a_dashboard_lacks_no_right_to_look_and_fails_no_check() -> None:
    fake = cluster(topic_rights={"orders": _LOOK, "pays": _LOOK}, group_rights=_LOOK)
    found = held_rights(fake)
    assert {h.right for h in found if h.granted is False} == {
        rights.READ_TOPIC, rights.DELETE_TOPIC, rights.READ_GROUP,
    }  # fmt: skip
    check = rights_check(found)
    assert check.ok is True
    assert "Delete Topic" in check.detail
    assert [f.name for f, _ in lost_features(found)] == [
        "purge", "policies", "sampling", "records", "move-waived",
    ]  # fmt: skip


def test_a_right_for_chosen_names_counts_where_one_topic_has_it() -> None:
    found = held(cluster(topic_rights={"pays": _LOOK}), rights.DELETE_TOPIC)
    assert (found.granted, found.missing_on) == (True, ("pays",))
    assert found.said == "held on 1 of 2 topics"


def test_a_right_for_all_names_is_missing_where_one_topic_lacks_it() -> None:
    fake = cluster(topic_rights={"pays": frozenset({"Describe"})})
    found = held(fake, rights.CONFIGS_TOPIC)
    assert (found.granted, found.missing_on) == (False, ("pays",))
    check = rights_check(held_rights(fake), "User:lw")
    assert (check.ok, "missing on 1 of 2 topics, among them pays" in check.detail) == (False, True)
    assert "CONFIGS_UNREADABLE" in check.costs
    assert check.next == rights.command(rights.CONFIGS_TOPIC, "User:lw")


@pytest.mark.parametrize("told", [True, False])
def test_a_hidden_offsets_topic_is_named_whether_log_dirs_show_it_or_not(told: bool) -> None:
    found = held(cluster(hides_offsets=True, log_dirs_told=told), rights.DESCRIBE_TOPIC)
    assert (found.granted, found.missing_on) == (False, ("__consumer_offsets",))
    assert found.said == "missing on 1 of 3 topics, among them __consumer_offsets"
    lost = [feature.name for feature, _ in lost_features([found])]
    assert "groups" in lost
    assert "plan" in lost


@pytest.mark.parametrize(
    ("fake", "granted", "said"),
    [
        (cluster(hidden=("secret",)), False, "missing on 1 of 3 topics, among them secret"),
        (cluster(probe=_NONE), True, "held on 2 topics"),
        (cluster(probe=_NONE, log_dirs_told=False), None, "the cluster does not tell"),
        (cluster(probe=_NONE, visible=(), log_dirs_told=False), False, "missing"),
        (cluster(log_dirs_told=False), True, "held on 2 topics"),
    ],
)
def test_hidden_topics_are_told_by_log_dirs_or_by_a_name_that_nobody_has(
    fake: FakeCluster, granted: bool | None, said: str
) -> None:
    found = held(fake, rights.DESCRIBE_TOPIC)
    assert (found.granted, found.said) == (granted, said)


@pytest.mark.parametrize(
    ("error", "granted"),
    [
        (None, True),
        ("CLUSTER_AUTHORIZATION_FAILED", False),
        ("BROKER_UNREACHABLE", None),
    ],
)
def test_without_describe_on_the_cluster_its_configs_are_tried(
    error: str | None, granted: bool | None
) -> None:
    errors = {"broker 1": error} if error else {}
    fake = cluster(cluster_rights=_NONE, config_errors=errors)
    assert held(fake, rights.CONFIGS_CLUSTER).granted is granted
    assert held(fake, rights.DESCRIBE_CLUSTER).granted is False


@pytest.mark.parametrize(
    ("error", "granted"),
    [("UNKNOWN_TOPIC_OR_PARTITION", True), ("TOPIC_AUTHORIZATION_FAILED", False)],
)
def test_where_no_topic_is_visible_the_right_to_configs_is_tried(error: str, granted: bool) -> None:
    fake = cluster(visible=(), probe=_NONE, config_errors={f"topic {PROBE}": error})
    assert held(fake, rights.CONFIGS_TOPIC).granted is granted


def test_what_old_brokers_do_not_tell_is_not_told() -> None:
    untold = {"orders": None, "pays": None}
    fake = cluster(cluster_rights=None, topic_rights=untold, group_rights=None)
    found = {h.right: h.granted for h in held_rights(fake)}
    assert found[rights.DELETE_TOPIC] is None
    assert found[rights.DESCRIBE_GROUP] is None
    assert found[rights.DESCRIBE_CLUSTER] is None
    assert rights_check(held_rights(fake)).ok is None


def test_json_has_every_right_and_feature_with_and_without_a_cluster() -> None:
    lone = to_json(None)
    assert [r["granted"] for r in lone["rights"]] == [None] * len(rights.RIGHTS)
    assert (lone["principal"], [f["lacks"] for f in lone["features"] if f["lacks"]]) == (None, [])
    told = to_json(held_rights(cluster(offsets_of={}, group_rights=_NONE)), "User:lw")
    assert told["principal"] == "User:lw"
    lacking = {f["feature"]: f["lacks"] for f in told["features"] if f["lacks"]}
    assert lacking["plan"] == ["Describe Group"]
    assert lacking["move-waived"] == ["Describe Group", "Read Group"]
    assert all("User:lw" in r["command"] for r in told["rights"])
