"""Our own TLS certificate: the principal that brokers make of it, and why they may refuse it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dashboard.core.clock import format_time


@dataclass(frozen=True, slots=True)
class Identity:
    """What a certificate says of its owner. Times are aware UTC."""

    distinguished_name: str
    issuer: str
    begins_at: datetime
    ends_at: datetime

    @property
    def principal(self) -> str:
        """As brokers name its owner, unless ssl.principal.mapping.rules say otherwise."""
        return f"User:{self.distinguished_name}"

    def problem(self, now: datetime) -> str | None:
        """Why no broker takes it now; None while it is in force."""
        if now >= self.ends_at:
            return f"it ended at {format_time(self.ends_at)}"
        if now < self.begins_at:
            return f"it begins at {format_time(self.begins_at)} only"
        return None


@dataclass(frozen=True, slots=True)
class OwnCertificate:
    """Where our certificate is: the path of a PEM file, or the text itself."""

    location: str
    pem: str = ""

    @classmethod
    def from_properties(cls, client: Mapping[str, str]) -> OwnCertificate | None:
        """Out of `ssl.certificate.*`; None where there is none."""
        if client.get("ssl.certificate.location"):
            return cls(client["ssl.certificate.location"])
        if client.get("ssl.certificate.pem"):
            return cls("ssl.certificate.pem", client["ssl.certificate.pem"].replace("\\n", "\n"))
        return None

    def identity(self) -> Identity | None:
        """Read from the first certificate there; None when it cannot be read."""
        from cryptography import x509  # loaded for a refusal and for doctor alone

        try:
            body = self.pem.encode() or Path(self.location).expanduser().read_bytes()
            found = x509.load_pem_x509_certificate(body)
        except (OSError, ValueError):
            return None
        # RFC 4514 is the order and spelling of Java's X500Principal.getName (RFC 2253).
        return Identity(
            found.subject.rfc4514_string(),
            found.issuer.rfc4514_string(),
            found.not_valid_before_utc,
            found.not_valid_after_utc,
        )


def why_refused(certificate: OwnCertificate | None, now: datetime) -> str:
    """A broker's refusal of our certificate, in words that name it."""
    if certificate is None:
        return "it wants a client certificate, and none is configured"
    found = certificate.identity()
    if found is None:
        return f"it refused our certificate {certificate.location}"
    why = found.problem(now) or f"its authority {found.issuer} may be none that the broker trusts"
    return f"it refused our certificate {found.distinguished_name} ({certificate.location}): {why}"


# Whose cluster a connection speaks with: every wire of it is held against the same id.


class Owner:
    """One cluster's id: the one that was known before, else the first that a broker tells.

    Addresses prove nothing: a load balancer or DNS leads to a mirror one day, a port is used
    again, a list of bootstrap addresses names two clusters. Thread-safe.
    """

    def __init__(self, cluster_id: str | None = None) -> None:
        self._cluster_id = cluster_id or None
        self._lock = threading.Lock()

    def is_named(self, cluster_id: str | None) -> bool:
        """Whether a broker that tells this id is of the cluster. One that tells none (a proxy, a
        broker before 0.10.1) contradicts nobody.
        """
        if not cluster_id:
            return True
        with self._lock:
            self._cluster_id = self._cluster_id or cluster_id
            return self._cluster_id == cluster_id
