"""A broker's secured doors for tests: TLS, client certificates, SASL users, an authorizer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from dashboard.demo.kafka.brokers import Listener, LocalCluster
from tests.brokers import token_issuer
from tests.brokers.certificates import Certificates

ADMIN, ADMIN_SECRET = "admin", "admin-secret"
LIMITED, LIMITED_SECRET = "limited", "limited-secret"
KEY_SET = "keys.json"
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
class SecuredCluster:
    """A running broker and client properties (librdkafka's words) for each of its doors."""

    local: LocalCluster
    certificates: Certificates
    issuer: token_issuer.TokenIssuer

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

    def mutual_tls(self, name: str) -> dict[str, str]:
        """With a certificate of our own: `certificates.CLIENTS`."""
        return self.tls() | {
            "bootstrap.servers": self.local.bootstrap_of("MUTUAL"),
            "ssl.certificate.location": str(self.certificates.client(name)),
            "ssl.key.location": str(self.certificates.key(name)),
        }

    def oauth(self, secret: str = token_issuer.SECRET) -> dict[str, str]:
        prefix = "sasl.oauthbearer."
        return {
            "bootstrap.servers": self.local.bootstrap_of("OAUTH"),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificates.authority),
            "https.ca.location": str(self.certificates.authority),
            "sasl.mechanism": "OAUTHBEARER",
            f"{prefix}token.endpoint.url": self.issuer.url,
            f"{prefix}client.id": token_issuer.CLIENT,
            f"{prefix}client.secret": secret,
            f"{prefix}scope": token_issuer.SCOPE,
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
    """SASL_PLAINTEXT (PLAIN and SCRAM), SSL without and with client certificates, SASL_SSL with
    PLAIN and with tokens; their files are in `folder`.
    """
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
    mutual = {
        "ssl.client.auth": "required",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "authority.pem"),
    }
    return [
        Listener("SASL", "SASL_PLAINTEXT", sasl),
        Listener("TLS", "SSL", keys),
        Listener("SASLTLS", "SASL_SSL", sasl | keys),
        Listener("MUTUAL", "SSL", keys | mutual),
        Listener("OAUTH", "SASL_SSL", keys | token_issuer.broker_properties(folder / KEY_SET)),
    ]
