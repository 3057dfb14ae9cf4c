"""What goes wrong on one connection, in words that name the address and the next step."""

from __future__ import annotations

import ssl

from dashboard.clock import utc_now
from dashboard.cluster.own_certificate import why_refused
from dashboard.cluster.security import Security
from dashboard.errors import ClusterError, OtherClusterError

_BY_PASSWORD = "sasl.username and sasl.password"
_CREDENTIALS = {"OAUTHBEARER": "sasl.oauthbearer.* (its token's audience, issuer and scope)"}


def unreachable(address: str, reason: str) -> ClusterError:
    """Nothing was sent."""
    return ClusterError(
        f"{address} could not be reached: {reason}",
        "Check the bootstrap address, that the broker runs, and security.protocol.",
        retriable=True,
    )


def tls_refused(address: str, error: Exception, security: Security) -> ClusterError:
    """TLS failed at the greeting, or by the broker's alert after it."""
    # With TLS 1.3 a broker refuses our certificate after its own greeting, by an alert.
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        why = why_refused(security.certificate, utc_now())
        step = (
            "Set ssl.certificate.location and ssl.key.location to a certificate in force that an "
            "authority in the broker's truststore signed."
        )
    else:
        why = str(error)
        step = (
            "Check ssl.ca.location, the broker's certificate (its host names) and your own, "
            "and that this listener speaks TLS."
        )
    return ClusterError(f"TLS with {address} failed: {why}", step, code="TLS_FAILED")


def refused(address: str, mechanism: str, reason: str) -> ClusterError:
    """The broker refused our SASL credentials."""
    return ClusterError(
        f"{address} refused {mechanism}: {reason}",
        f"Check sasl.mechanisms, {_CREDENTIALS.get(mechanism, _BY_PASSWORD)} of this cluster.",
        code="AUTHENTICATION_FAILED",
    )


def foreign(address: str, cluster_id: str) -> OtherClusterError:
    """Nothing but who it is was asked."""
    return OtherClusterError(
        cluster_id,
        f"{address} belongs to another cluster ({cluster_id})",
        "Check bootstrap.servers, which may name one cluster alone, and where these names and "
        "ports lead now.",
    )


def lost(address: str, reason: str) -> ClusterError:
    """The request was sent, and may have been carried out."""
    return ClusterError(
        f"the answer of {address} was lost: {reason}",
        "Read the cluster again: the request may have been carried out.",
        code="ANSWER_LOST",
        retriable=True,
    )
