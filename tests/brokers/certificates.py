"""Throw-away certificates for secured brokers and their clients, as PEM files."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CLIENTS = ("lowwater", "reader", "expired", "stranger", "early")
_HOUR = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: the authority that signed the broker, and another that signed nothing of it.

    `client(name)` is a client's certificate chain, `key(name)` its private key: `lowwater` and
    `reader` are good, `expired` was, `early` will be, and a strange authority signed `stranger`.
    """

    authority: Path
    stranger: Path

    def client(self, name: str) -> Path:
        return self.authority.with_name(f"client-{name}.pem")

    def key(self, name: str) -> Path:
        return self.authority.with_name(f"client-{name}.key")

    @staticmethod
    def principal(name: str) -> str:
        """Kafka's principal of a client: its DN as DefaultKafkaPrincipalBuilder writes it."""
        return f"User:CN={name},OU=ops,O=Lowwater tests"


def write_certificates(folder: Path) -> Certificates:
    """An authority, a broker certificate for 127.0.0.1 signed by it, a stranger, and clients."""
    authority, strange = _Authority("lowwater test authority"), _Authority("stranger")
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    key, chain = authority.signed(_name("broker"), x509.SubjectAlternativeName(names))
    (folder / "broker.pem").write_bytes(key + chain)
    (folder / "authority.pem").write_bytes(authority.pem)
    (folder / "stranger.pem").write_bytes(strange.pem)
    made = Certificates(folder / "authority.pem", folder / "stranger.pem")
    for name in CLIENTS:
        signer = strange if name == "stranger" else authority
        key, chain = signer.signed(_name(name, "ops", "Lowwater tests"), days=_days(name))
        made.key(name).write_bytes(key)
        made.client(name).write_bytes(chain)
    return made


def _days(name: str) -> tuple[float, float]:
    """When a client's certificate begins and ends, in days from now."""
    return {"expired": (-9, -2), "early": (3, 9)}.get(name, (-0.1, 2))


class _Authority:
    """A key and a self-signed certificate that signs others."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        basic = x509.BasicConstraints(ca=True, path_length=None)
        builder = _builder(self._name, self._name, self._key.public_key(), (-0.1, 2))
        self.pem = _pem(
            builder.add_extension(basic, critical=True).sign(self._key, hashes.SHA256())
        )

    def signed(
        self,
        subject: x509.Name,
        extension: x509.ExtensionType | None = None,
        days: tuple[float, float] = (-0.1, 2),
    ) -> tuple[bytes, bytes]:
        """A new private key, and the certificate with this authority's after it."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key.public_key(), days)
        if extension is not None:
            builder = builder.add_extension(extension, critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return private, _pem(builder.sign(self._key, hashes.SHA256())) + self.pem


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    days: tuple[float, float],
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * 24 * _HOUR)
        .not_valid_after(now + days[1] * 24 * _HOUR)
    )


def _name(common: str, unit: str = "", organisation: str = "") -> x509.Name:
    parts = [
        (NameOID.ORGANIZATION_NAME, organisation),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
        (NameOID.COMMON_NAME, common),
    ]
    return x509.Name([x509.NameAttribute(oid, text) for oid, text in parts if text])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
