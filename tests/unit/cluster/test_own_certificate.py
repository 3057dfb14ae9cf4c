"""Our own certificate: whose it is, when it is in force, and the words for a refusal."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.cluster.connection.own_certificate import OwnCertificate, why_refused
from dashboard.cluster.connection.security import read_security
from dashboard.core.clock import utc_now
from tests.brokers.certificates import Certificates, write_certificates


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return write_certificates(tmp_path_factory.mktemp("certificates"))


def test_its_whole_name_is_the_principal(files: Certificates) -> None:
    client = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.certificate.location": str(files.client("lowwater")),
        "ssl.key.location": str(files.key("lowwater")),
    }
    assert read_security(client).principal == Certificates.principal("lowwater")
    inline = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.certificate.pem": files.client("lowwater").read_text().replace("\n", "\\n"),
        "ssl.key.pem": files.key("lowwater").read_text(),
    }
    assert read_security(inline).principal == Certificates.principal("lowwater")


def test_a_sasl_user_is_the_principal_whatever_the_certificate(files: Certificates) -> None:
    client = {
        "bootstrap.servers": "a:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "lw",
        "sasl.password": "hush",
        "ssl.certificate.location": str(files.client("lowwater")),
        "ssl.key.location": str(files.key("lowwater")),
    }
    assert read_security(client).principal == "User:lw"
    assert read_security({"bootstrap.servers": "a:1"}).principal == "User:ANONYMOUS"


@pytest.mark.parametrize(
    ("name", "days", "said"),
    [
        ("lowwater", 0, "its authority CN=lowwater test authority"),
        ("lowwater", 3, "it ended at 20"),
        ("early", 0, "it begins at 20"),
        ("early", 5, "its authority"),
        ("stranger", 0, "its authority CN=stranger may be none that the broker trusts"),
    ],
)
def test_a_refusal_says_when_or_by_whom(
    files: Certificates, name: str, days: int, said: str
) -> None:
    found = OwnCertificate(str(files.client(name)))
    why = why_refused(found, utc_now() + timedelta(days=days))
    assert said in why
    assert f"CN={name},OU=ops,O=Lowwater tests ({files.client(name)})" in why


def test_a_certificate_that_cannot_be_read_is_named_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "gone.pem"
    assert str(path) in why_refused(OwnCertificate(str(path)), utc_now())
    path.write_text("no PEM")
    assert OwnCertificate(str(path)).identity() is None
    assert "none is configured" in why_refused(None, utc_now())
