"""TLS and SASL from one section for both clients, refusals by name, and missing rights."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
)

from dashboard.cluster.connection.security import librdkafka_properties
from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError
from dashboard.store.snapshots import ClusterStore, Store
from tests.brokers.secured import LIMITED, LIMITED_SECRET, SecuredCluster
from tests.brokers.workload import ANSWERS_WITHIN, Workload, until

SCRAM = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
PATIENCE = timedelta(seconds=30)


@pytest.fixture(scope="module")
def workload(secured_cluster: SecuredCluster) -> Iterator[Workload]:
    made = Workload(secured_cluster.plaintext())
    yield made
    made.close()


@pytest.fixture(scope="module")
def with_scram(secured_cluster: SecuredCluster) -> SecuredCluster:
    for name, mechanism in SCRAM.items():
        secured_cluster.add_scram_user(f"user-{name}", "secret", mechanism)
    return secured_cluster


@pytest.mark.parametrize("door", ["sasl_plain", "tls", "sasl_tls", *SCRAM])
def test_one_section_opens_both_clients(with_scram: SecuredCluster, door: str) -> None:
    if door in SCRAM:
        client = with_scram.sasl_scram(f"user-{door}", "secret", door)
    else:
        client = getattr(with_scram, door)()

    def opens() -> bool:
        with connect(client, PATIENCE) as live:
            return live.cluster_id() == with_scram.local.cluster_id

    if door in SCRAM:  # a SCRAM user reaches the broker a moment after it was made
        until(lambda: _quietly(opens), 60)
    assert opens()
    other = AdminClient(librdkafka_properties(client))
    assert other.list_topics(timeout=60).cluster_id == with_scram.local.cluster_id


def _quietly(opens: object) -> bool:
    try:
        return bool(opens())  # type: ignore[operator]
    except ClusterError:
        return False


def test_a_wrong_password_is_refused_by_name(secured_cluster: SecuredCluster) -> None:
    client = secured_cluster.sasl_plain("admin", "wrong")
    with pytest.raises(ClusterError, match="PLAIN") as refused:
        connect(client, PATIENCE)
    assert refused.value.code == "AUTHENTICATION_FAILED"
    assert client["bootstrap.servers"] in refused.value.message


def test_an_unknown_scram_user_is_refused_by_name(secured_cluster: SecuredCluster) -> None:
    with pytest.raises(ClusterError, match="SCRAM-SHA-512") as refused:
        connect(secured_cluster.sasl_scram("nobody", "x", "SCRAM-SHA-512"), PATIENCE)
    assert refused.value.code == "AUTHENTICATION_FAILED"


def test_a_mechanism_the_listener_lacks_is_refused_with_those_it_has(
    secured_cluster: SecuredCluster,
) -> None:
    client = {
        **secured_cluster.sasl_plain(),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
        "sasl.oauthbearer.client.id": "x",
        "sasl.oauthbearer.client.secret": "y",
    }
    with pytest.raises(ClusterError, match=r"it offers .*PLAIN") as refused:
        connect(client, PATIENCE)
    assert refused.value.code == "AUTHENTICATION_FAILED"


def test_an_unknown_authority_is_refused(secured_cluster: SecuredCluster) -> None:
    stranger: Path = secured_cluster.certificates.stranger
    with pytest.raises(ClusterError, match="certificate") as refused:
        connect(secured_cluster.tls(stranger), PATIENCE)
    assert refused.value.code == "TLS_FAILED"


def test_tls_to_a_plain_listener_is_told(secured_cluster: SecuredCluster) -> None:
    client = {**secured_cluster.tls(), **secured_cluster.plaintext()}
    with pytest.raises(ClusterError) as refused:
        connect(client, PATIENCE)
    assert refused.value.code == "TLS_FAILED"


@pytest.mark.parametrize("door", ["tls", "sasl_plain"])
def test_plain_words_to_a_secured_listener_hint_at_the_protocol(
    secured_cluster: SecuredCluster, door: str
) -> None:
    servers = getattr(secured_cluster, door)()["bootstrap.servers"]
    with pytest.raises(ClusterError, match="is PLAINTEXT its protocol") as refused:
        connect({"bootstrap.servers": servers}, PATIENCE)
    assert refused.value.code == "CLUSTER_UNREACHABLE"


def test_missing_rights_cost_what_they_guard_and_are_said(
    secured_cluster: SecuredCluster, workload: Workload, tmp_path: Path
) -> None:
    visible, hidden = workload.topic(replicas=1), workload.topic(replicas=1)
    workload.commit(f"{visible}-seen", {(visible, 0): 0})
    _allow(workload, ResourceType.TOPIC, visible)
    client = secured_cluster.sasl_plain(LIMITED, LIMITED_SECRET)
    store = ClusterStore(Store(str(tmp_path)), secured_cluster.local.cluster_id)
    with connect(client, PATIENCE) as live:
        until(lambda: visible in live.topics(None), 60)
        got = collect(live, store, now=utc_now, progress=lambda _: None)
        with connect(secured_cluster.plaintext(), PATIENCE) as admin:
            ids = {name: state.topic_id or "" for name, state in admin.topics(None).items()}
        # A list of all topics leaves it out; its id tells that it is there.
        assert hidden not in live.topics(None)
        assert live.topic_of_id(ids[hidden]).error == "TOPIC_AUTHORIZATION_FAILED"
        assert live.topic_of_id("A" * 21 + "Q").error == "UNKNOWN_TOPIC_ID"
        found = live.topic_of_id(ids[visible])
        assert (found.topic, found.topic_id, found.error) == (visible, ids[visible], None)
    topics = store.read("snapshots", got.snapshot_id, "topics").to_pylist()
    replicas = store.read("snapshots", got.snapshot_id, "replicas").to_pylist()
    assert [t["topic"] for t in topics] == [visible]
    assert hidden not in {t["topic"] for t in topics}
    assert [(r["size_bytes"], r["log_end_offset"], r["error"]) for r in replicas] == [
        (None, 0, "CLUSTER_AUTHORIZATION_FAILED")
    ]
    assert got.brokers[0]["reachable"]
    assert "no DESCRIBE right on the cluster" in got.groups_incomplete[0]
    refused = {(e["part"], e["object"]) for e in got.errors}
    assert ("log_dirs", "broker 1") in refused
    assert ("configs", f"topic {visible}") in refused


def _allow(workload: Workload, kind: ResourceType, name: str) -> None:
    rule = AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{LIMITED}", "*",
        AclOperation.DESCRIBE, AclPermissionType.ALLOW,
    )  # fmt: skip
    workload.admin.create_acls([rule])[rule].result(ANSWERS_WITHIN)
