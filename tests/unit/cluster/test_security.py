"""Client properties: one section configures both clients; what cannot be used is named."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from dashboard.cluster.connection.security import librdkafka_properties, read_security
from dashboard.core.errors import SettingsError
from tests.brokers.certificates import Certificates, write_certificates

PLAIN = {
    "bootstrap.servers": "a:9092,b:9093",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "p",
}


def test_addresses_and_credentials_are_read() -> None:
    security = read_security(PLAIN)
    assert security.bootstrap == (("a", 9092), ("b", 9093))
    assert (security.protocol, security.mechanism) == ("SASL_PLAINTEXT", "PLAIN")
    assert (security.username, security.password) == ("u", "p")
    assert security.tls is None


def test_both_names_of_the_sasl_mechanism_are_understood() -> None:
    client = {k: v for k, v in PLAIN.items() if k != "sasl.mechanisms"}
    assert read_security({**client, "sasl.mechanism": "PLAIN"}).mechanism == "PLAIN"


def test_the_other_client_gets_the_same_properties() -> None:
    properties = librdkafka_properties(PLAIN)
    assert {key: properties[key] for key in PLAIN} == PLAIN
    assert properties["client.id"] == "lowwater"


def test_an_ipv6_address_is_read() -> None:
    assert read_security({"bootstrap.servers": "[::1]:9092"}).bootstrap == (("::1", 9092),)


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        ("bootstrap.servers", {"bootstrap.servers": ""}),
        ("bootstrap.servers", {"bootstrap.servers": "nowhere"}),
        ("bootstrap.servers", {"bootstrap.servers": "a:99999"}),
        ("security.protocol", {"security.protocol": "TLS"}),
        ("sasl.mechanisms", {"sasl.mechanisms": "GSSAPI"}),
        ("sasl.username", {"sasl.username": ""}),
        ("enable.idempotence", {"enable.idempotence": "true"}),
        (
            "sasl.oauthbearer.token.endpoint.url",
            {"sasl.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.client.id": "x"},
        ),
    ],
)
def test_what_cannot_be_used_is_named(key: str, changes: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=key.replace(".", r"\.")) as refused:
        read_security({**PLAIN, **changes})
    assert refused.value.exit_code == 1


def test_an_authority_that_is_no_pem_is_named(tmp_path: Path) -> None:
    store = tmp_path / "truststore.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(SettingsError, match=r"truststore\.jks"):
        read_security(
            {
                "bootstrap.servers": "a:1",
                "security.protocol": "SSL",
                "ssl.ca.location": str(store),
            }
        )


def test_the_host_name_check_follows_its_property() -> None:
    client = {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
    checked = read_security(client).tls
    free = read_security({**client, "ssl.endpoint.identification.algorithm": "none"}).tls
    assert checked is not None
    assert checked.check_hostname
    assert checked.verify_mode == ssl.CERT_REQUIRED
    assert free is not None
    assert not free.check_hostname
    assert free.verify_mode == ssl.CERT_REQUIRED


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("given", ["location", "pem", "probe and pem", "folder"])
def test_an_authority_that_is_named_replaces_the_systems(
    files: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """As for librdkafka and Java: else whatever any public authority signed is a broker."""
    monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))  # the system's, on any machine
    own = write_certificates(tmp_path).authority
    words = {
        "location": {"ssl.ca.location": str(own)},
        "pem": {"ssl.ca.pem": own.read_text()},
        "probe and pem": {"ssl.ca.location": "probe", "ssl.ca.pem": own.read_text()},
        "folder": {"ssl.ca.location": str(tmp_path)},
    }[given]
    client = {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
    tls = read_security({**client, **words}).tls
    expected = [ssl.PEM_cert_to_DER_cert(own.read_text())]
    assert tls is not None
    assert tls.get_ca_certs(binary_form=True) == ([] if given == "folder" else expected)
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_REQUIRED, True)
    default = ssl.create_default_context()
    assert (tls.verify_flags, tls.options) == (default.verify_flags, default.options)


@pytest.mark.parametrize("words", [{}, {"ssl.ca.location": "probe"}])
def test_where_none_is_named_the_systems_authorities_count(
    files: Certificates, monkeypatch: pytest.MonkeyPatch, words: dict[str, str]
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files.authority))
    tls = read_security({"bootstrap.servers": "a:1", "security.protocol": "SSL", **words}).tls
    assert tls is not None
    system = ssl.PEM_cert_to_DER_cert(files.authority.read_text())
    assert system in tls.get_ca_certs(binary_form=True)
