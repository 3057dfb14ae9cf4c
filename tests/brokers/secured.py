"""A broker's secured doors for tests: throw-away certificates, SASL users and an authorizer."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dashboard.demo.brokers import LocalCluster
from dashboard.demo.server_properties import Listener

ADMIN, ADMIN_SECRET = "admin", "admin-secret"
LIMITED, LIMITED_SECRET = "limited", "limited-secret"
# The plain listener's ANONYMOUS and `admin` may do all; every other user only what ACLs allow.
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{ADMIN}",
}
_PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="{ADMIN}" password="{ADMIN_SECRET}" '
    f'user_{ADMIN}="{ADMIN_SECRET}" user_{LIMITED}="{LIMITED_SECRET}";'
)
_SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority that signed the broker, and another that signed nothing."""

    authority: Path
    stranger: Path


@dataclass(frozen=True, slots=True)
class SecuredCluster:
    """A running broker and client properties (librdkafka's words) for each of its doors."""

    local: LocalCluster
    certificates: Certificates

    def plaintext(self) -> dict[str, str]:
        return {"bootstrap.servers": self.local.bootstrap}

    def sasl_plain(self, user: str = ADMIN, secret: str = ADMIN_SECRET) -> dict[str, str]:
        return self._sasl("SASL", "SASL_PLAINTEXT", "PLAIN", user, secret)

    def sasl_scram(
        self, user: str = ADMIN, secret: str = ADMIN_SECRET, mechanism: str = "SCRAM-SHA-256"
    ) -> dict[str, str]:
        return self._sasl("SASL", "SASL_PLAINTEXT", mechanism, user, secret)

    def tls(self, authority: Path | None = None) -> dict[str, str]:
        return {
            "bootstrap.servers": self.local.bootstrap_of("TLS"),
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority or self.certificates.authority),
        }

    def sasl_tls(self, user: str = ADMIN, secret: str = ADMIN_SECRET) -> dict[str, str]:
        sasl = self._sasl("SASLTLS", "SASL_SSL", "PLAIN", user, secret)
        return sasl | {"ssl.ca.location": str(self.certificates.authority)}

    def add_scram_user(
        self, user: str, secret: str, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256
    ) -> None:
        """KRaft keeps SCRAM users in its metadata: they are made after the start."""
        change = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(mechanism, 4096), secret.encode()
        )
        client = AdminClient(self.plaintext())  # its answers die with it: kept until they came
        for done in client.alter_user_scram_credentials([change]).values():
            done.result()

    def _sasl(
        self, listener: str, protocol: str, mechanism: str, user: str, secret: str
    ) -> dict[str, str]:
        return {
            "bootstrap.servers": self.local.bootstrap_of(listener),
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": secret,
        }


def listeners(folder: Path) -> list[Listener]:
    """SASL_PLAINTEXT (PLAIN and SCRAM), SSL and SASL_SSL, with the files in `folder`."""
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
    }
    sasl = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "plain.sasl.jaas.config": _PLAIN_LOGIN,
        "scram-sha-256.sasl.jaas.config": _SCRAM_LOGIN,
        "scram-sha-512.sasl.jaas.config": _SCRAM_LOGIN,
    }
    return [
        Listener("SASL", "SASL_PLAINTEXT", sasl),
        Listener("TLS", "SSL", keys),
        Listener("SASLTLS", "SASL_SSL", sasl | keys),
    ]


def write_certificates(folder: Path) -> Certificates:
    """An authority, a broker certificate for 127.0.0.1 signed by it, and a stranger authority."""
    authority_key, authority = _authority("lowwater test authority")
    _, stranger = _authority("stranger")
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        _builder("broker", authority.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "broker.pem").write_bytes(private + _pem(certificate) + _pem(authority))
    (folder / "authority.pem").write_bytes(_pem(authority))
    (folder / "stranger.pem").write_bytes(_pem(stranger))
    return Certificates(folder / "authority.pem", folder / "stranger.pem")


def _authority(name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, _name(name), key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    return key, builder.sign(key, hashes.SHA256())


def _builder(
    name: str, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
