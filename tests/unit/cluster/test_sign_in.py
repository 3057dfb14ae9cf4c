"""The first word of signing in, as brokers read it."""

from __future__ import annotations

import pytest

from dashboard.cluster.connection.security import read_security
from dashboard.cluster.connection.sign_in import begin


@pytest.mark.parametrize(
    ("mechanism", "word"),
    [
        # RFC 5802, section 5.1: a broker refuses a name in which these two are not spelled out.
        ("SCRAM-SHA-256", b"n,,n=CN=3Da=2COU=3D3D,r="),
        ("SCRAM-SHA-512", b"n,,n=CN=3Da=2COU=3D3D,r="),
        ("PLAIN", b"CN=a,OU=3D\0CN=a,OU=3D\0p=,"),
    ],
    ids=["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"],
)
def test_a_users_name_is_spelled_as_its_mechanism_wants(mechanism: str, word: bytes) -> None:
    security = read_security(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": mechanism,
            "sasl.username": "CN=a,OU=3D",
            "sasl.password": "p=,",
        }
    )
    assert begin(mechanism, security, 0.0).auth_bytes().startswith(word)
    assert security.principal == "User:CN=a,OU=3D"
