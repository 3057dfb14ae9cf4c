"""Client certificates and tokens through both Kafka clients, and each refusal by its name."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from dashboard.cluster.connection.security import librdkafka_properties
from dashboard.cluster.live import LiveCluster, connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError
from dashboard.domain import rights
from dashboard.store.snapshots import ClusterStore, Store
from tests.brokers import principals, token_issuer
from tests.brokers.certificates import Certificates
from tests.brokers.secured import SecuredCluster
from tests.brokers.token_issuer import TokenIssuer
from tests.brokers.workload import ANSWERS_WITHIN, Workload, until

pytestmark = pytest.mark.further

PATIENCE = timedelta(seconds=30)


@pytest.fixture(scope="module")
def topic(secured_cluster: SecuredCluster) -> Iterator[str]:
    """Seen by the certificate and by the token that were given Describe, by no other."""
    workload = Workload(secured_cluster.plaintext())
    name = workload.topic(replicas=1)
    who = (Certificates.principal("reader"), f"User:{token_issuer.CLIENT}")
    given = [principals.binding(user, rights.DESCRIBE_TOPIC, name) for user in who]
    for made in workload.admin.create_acls(given).values():
        made.result(ANSWERS_WITHIN)
    yield name
    workload.close()


@pytest.fixture
def issuer(secured_cluster: SecuredCluster) -> Iterator[TokenIssuer]:
    """The token endpoint, as it was afterwards."""
    found = secured_cluster.issuer
    yield found
    found.lifetime, found.subject = 3600.0, token_issuer.CLIENT
    found.strange, found.says_lifetime = False, True


def seen_by_both(client: Mapping[str, str]) -> tuple[set[str], set[str]]:
    """The topics that our own wire shows, and confluent-kafka."""
    with connect(client, PATIENCE) as live:
        ours = set(live.topics(None))
    return ours, set(AdminClient(librdkafka_properties(client)).list_topics(timeout=60).topics)


def refusal(client: Mapping[str, str]) -> ClusterError:
    with pytest.raises(ClusterError) as refused:
        connect(client, PATIENCE)
    return refused.value


def test_a_client_certificates_name_is_the_principal(
    secured_cluster: SecuredCluster, topic: str
) -> None:
    until(lambda: seen_by_both(secured_cluster.mutual_tls("reader"))[0] == {topic}, 60)
    assert seen_by_both(secured_cluster.mutual_tls("reader")) == ({topic}, {topic})
    assert seen_by_both(secured_cluster.mutual_tls("lowwater")) == (set(), set())
    with connect(secured_cluster.mutual_tls("reader"), PATIENCE) as live:
        assert live.principal() == Certificates.principal("reader")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("expired", "it ended at"),
        ("early", "it begins at"),
        ("stranger", "its authority CN=stranger may be none that the broker trusts"),
    ],
)
def test_a_certificate_that_the_broker_refuses_is_named_with_the_reason(
    secured_cluster: SecuredCluster, name: str, said: str
) -> None:
    found = refusal(secured_cluster.mutual_tls(name))
    assert found.code == "TLS_FAILED"
    assert said in found.message
    assert f"CN={name},OU=ops" in found.message
    assert str(secured_cluster.certificates.client(name)) in found.message


def test_no_certificate_where_one_is_wanted_is_told(secured_cluster: SecuredCluster) -> None:
    client = secured_cluster.mutual_tls("reader")
    del client["ssl.certificate.location"], client["ssl.key.location"]
    found = refusal(client)
    assert (found.code, "none is configured" in found.message) == ("TLS_FAILED", True)
    assert "ssl.certificate.location" in found.next_step


def test_a_tokens_subject_is_the_principal(
    secured_cluster: SecuredCluster, topic: str, issuer: TokenIssuer
) -> None:
    assert seen_by_both(secured_cluster.oauth()) == ({topic}, {topic})
    issuer.subject = "somebody-else"
    assert seen_by_both(secured_cluster.oauth()) == (set(), set())


@pytest.mark.further
@pytest.mark.parametrize(
    "says_lifetime",
    [
        pytest.param(True, id="told"),
        pytest.param(False, id="inside the token", marks=pytest.mark.slow),
    ],
)
def test_a_collect_after_its_token_ended_takes_another(
    secured_cluster: SecuredCluster,
    topic: str,
    issuer: TokenIssuer,
    says_lifetime: bool,
    tmp_path: Path,
) -> None:
    issuer.lifetime, issuer.says_lifetime = 6, says_lifetime
    client = secured_cluster.oauth()
    store = ClusterStore(Store(str(tmp_path)), secured_cluster.local.cluster_id)
    other = AdminClient(librdkafka_properties(client))
    before = issuer.issued
    with connect(client, PATIENCE) as live:
        assert _collected(live, store) == {topic}
        assert set(other.list_topics(timeout=60).topics) == {topic}
        assert issuer.issued > before
        time.sleep(6.2)  # the tokens so far are good for 6 s, to the broker's second
        before, issuer.lifetime = issuer.issued, 3600
        assert _collected(live, store) == {topic}
        assert set(other.list_topics(timeout=60).topics) == {topic}
        assert issuer.issued > before


def _collected(live: LiveCluster, store: ClusterStore) -> set[str]:
    """The topics of a snapshot of a broker that answered."""
    got = collect(live, store, now=utc_now, progress=lambda _: None)
    assert got.brokers[0]["reachable"]
    return {t["topic"] for t in store.read("snapshots", got.snapshot_id, "topics").to_pylist()}


def test_an_endpoint_whose_authority_is_not_trusted_gets_no_secret(
    secured_cluster: SecuredCluster, issuer: TokenIssuer
) -> None:
    stranger, scope = str(secured_cluster.certificates.stranger), "of-this-test"  # nobody else's
    asking = {**secured_cluster.oauth(), "sasl.oauthbearer.scope": scope}
    found = refusal({**asking, "https.ca.location": stranger})
    assert found.code == "AUTHENTICATION_FAILED"
    assert scope not in issuer.scopes
    with connect(asking):
        assert scope in issuer.scopes
    assert "CERTIFICATE_VERIFY_FAILED" in found.message


def test_a_wrong_client_secret_is_the_endpoints_refusal(secured_cluster: SecuredCluster) -> None:
    found = refusal(secured_cluster.oauth("wrong-secret"))
    assert found.code == "AUTHENTICATION_FAILED"
    assert secured_cluster.issuer.url in found.message
    assert "401" in found.message
    assert "invalid_client" in found.message
    assert "wrong-secret" not in found.message


@pytest.mark.parametrize("fault", ["strange key", "ended"])
def test_a_token_that_the_broker_refuses_is_named_as_such(
    secured_cluster: SecuredCluster, issuer: TokenIssuer, fault: str
) -> None:
    issuer.strange, issuer.lifetime = fault == "strange key", -5 if fault == "ended" else 3600
    found = refusal(secured_cluster.oauth())
    assert found.code == "AUTHENTICATION_FAILED"
    assert "OAUTHBEARER" in found.message
    assert "sasl.oauthbearer" in found.next_step


def test_a_refused_token_is_not_kept(
    secured_cluster: SecuredCluster, topic: str, issuer: TokenIssuer
) -> None:
    client = secured_cluster.oauth()
    with connect(client, PATIENCE) as live:
        tokens = live._connection.security.tokens
        assert tokens is not None
        issuer.strange = True
        tokens.forget()
        for wires in live._connection._idle.values():
            for wire, _ in wires:
                wire.close()
        with pytest.raises(ClusterError, match="OAUTHBEARER"):
            live.cluster_id()
        issuer.strange = False  # its keys were changed back: the next token is good again
        assert set(live.topics(None)) == {topic}
