"""Least rights on a real authorizer: each missing one costs its features, by name, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.cluster.live import connect
from dashboard.core.errors import ClusterError
from dashboard.doctor.doctor import held_rights
from dashboard.domain import rights
from dashboard.domain.rights import Feature, Right
from tests.brokers import principals
from tests.brokers.purge_bench import Bench
from tests.brokers.rights_probes import WORKS, Probes
from tests.brokers.secured import SecuredCluster
from tests.brokers.workload import until

ALL = "has-all"
LOOKING = (
    "collect", "groups", "log dirs", "topic configs", "broker configs", "reassignments",
    "epochs", "plan", "orphan check",
)  # fmt: skip
# What the refusal says where the right that stands first is missing, and how a person finds it.
SAID = {
    rights.DESCRIBE_TOPIC: {"plan": "TOPIC_NOT_FOUND", "epochs": "TOPIC_AUTHORIZATION_FAILED",
                            "orphan check": "the cluster tells of no topic"},
    rights.CONFIGS_TOPIC: {"plan": "CONFIGS_UNREADABLE",
                           "topic configs": "TOPIC_AUTHORIZATION_FAILED"},
    rights.DESCRIBE_CLUSTER: {"groups": "no DESCRIBE right on the cluster",
                              "plan": "groups-incomplete",
                              "reassignments": "CLUSTER_AUTHORIZATION_FAILED",
                              "log dirs": "CLUSTER_AUTHORIZATION_FAILED",
                              "orphan check": "does not tell what it hosts"},
    rights.CONFIGS_CLUSTER: {"broker configs": "CLUSTER_AUTHORIZATION_FAILED"},
    rights.DESCRIBE_GROUP: {"groups": "GROUP_AUTHORIZATION_FAILED", "plan": "groups-incomplete"},
}  # fmt: skip


def user_without(right: Right) -> str:
    return f"without-{right.name.replace(' ', '-').lower()}"


def user_with(feature: str) -> str:
    return f"only-{feature.replace(' ', '-')}"


@pytest.fixture(scope="module")
def topic(
    secured_cluster: SecuredCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """100 records, all committed by one group; every principal's rights are there."""
    wanted = {ALL: rights.RIGHTS, "has-none": ()}
    wanted |= {user_without(right): principals.without(right) for right in rights.RIGHTS}
    wanted |= {user_with(feature.name): feature.needs for feature in rights.FEATURES}
    principals.make(secured_cluster, wanted)
    local = secured_cluster.local
    bench = Bench(local.bootstrap, local.cluster_id, tmp_path_factory.mktemp("rights"), replicas=1)
    name = bench.topic(100)
    bench.commit("rights-reader", name, {0: 100})
    client = principals.client(secured_cluster, user_with(rights.FEATURES[-1].name))
    with connect(secured_cluster.plaintext(), timedelta(seconds=30)):
        until(lambda: _sees(client, name), 60)  # the last of all rights has arrived
    yield name
    bench.close()


def _sees(client: dict[str, str], topic: str) -> bool:
    try:
        with connect(client, timedelta(seconds=30)) as live:
            return topic in live.topics(None)
    except ClusterError:  # a user that the broker has not heard of yet
        return False


def lost(found: dict[str, str]) -> set[str]:
    return {feature for feature, said in found.items() if said != WORKS}


def needing(right: Right) -> set[str]:
    return {feature.name for feature in rights.FEATURES if right in feature.needs}


def test_who_has_all_rights_can_do_all(
    secured_cluster: SecuredCluster, topic: str, tmp_path: Path
) -> None:
    with Probes(secured_cluster, ALL, topic, tmp_path / "all") as probes:
        assert probes.look() == dict.fromkeys(LOOKING, WORKS)


@pytest.mark.parametrize("right", list(SAID), ids=lambda right: right.name)
def test_a_missing_right_costs_exactly_its_features_and_says_so(
    secured_cluster: SecuredCluster, topic: str, tmp_path: Path, right: Right
) -> None:
    user = user_without(right)
    with Probes(secured_cluster, user, topic, tmp_path / "one") as probes:
        found = probes.look()
    assert lost(found) == needing(right) & set(LOOKING), found
    for feature, said in SAID[right].items():
        assert said in found[feature]
    held = held_by(secured_cluster, user)
    gone = {right, *rights.IMPLIED_BY.get(right, ())}
    assert {r for r, granted in held.items() if granted is False} == gone


def held_by(cluster: SecuredCluster, user: str) -> dict[Right, bool | None]:
    with connect(principals.client(cluster, user), timedelta(seconds=10)) as live:
        return {h.right: h.granted for h in held_rights(live)}


@pytest.mark.further_but("Delete Topic", "Read Group")
@pytest.mark.parametrize("right", rights.RIGHTS, ids=lambda right: right.name)
def test_a_missing_right_costs_purges_and_moves_what_the_table_says(
    secured_cluster: SecuredCluster, topic: str, tmp_path: Path, right: Right
) -> None:
    at = 2 * rights.RIGHTS.index(right) + 1
    with Probes(secured_cluster, user_without(right), topic, tmp_path / "one") as probes:
        before = probes.bench.log_start(topic)
        found = {
            "sampling": probes.sampling(),
            "records": probes.records(),
            "purge": probes.purge(at),
            "move-waived": probes.move(at + 1),
        }
        start = probes.bench.log_start(topic)
    assert lost(found) == needing(right) & set(found), found
    purged = not found["purge"]
    assert start == (at + 1 if purged else before)
    if right is rights.DELETE_TOPIC:
        assert "TOPIC_AUTHORIZATION_FAILED" in found["purge"]
    if right is rights.READ_TOPIC:
        assert found["move-waived"] == "refused TOPIC_AUTHORIZATION_FAILED"
        assert found["sampling"].strip() not in ("", "sampled")
        assert "has no READ on topic" in found["records"]
    if right is rights.READ_GROUP:
        assert found["move-waived"] == "refused GROUP_AUTHORIZATION_FAILED"


@pytest.mark.further_but("collect", "plan", "purge", "orphan check")
@pytest.mark.parametrize(
    "feature",
    [
        f
        for f in rights.FEATURES
        if f.name in (*LOOKING, "sampling", "records", "purge", "move-waived")
    ],
    ids=lambda feature: feature.name,
)
def test_a_features_own_rights_are_enough_for_it(
    secured_cluster: SecuredCluster, topic: str, tmp_path: Path, feature: Feature
) -> None:
    with Probes(secured_cluster, user_with(feature.name), topic, tmp_path / "one") as probes:
        start = probes.bench.log_start(topic) or 0
        if feature.name in LOOKING:
            assert probes.look()[feature.name] == WORKS
        elif feature.name == "sampling":
            assert probes.sampling() == WORKS
        elif feature.name == "records":
            assert probes.records() == WORKS
        elif feature.name == "purge":
            assert probes.purge(start + 1) == WORKS
        else:
            assert probes.move(start + 1) == WORKS
