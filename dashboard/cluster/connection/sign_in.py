"""SASL by kafka-python's mechanisms: PLAIN, SCRAM and OAUTHBEARER with our own tokens.

Apart from `wire`, since it loads kafka-python's clients: only connections that sign in wait for it.
"""

from __future__ import annotations

import time
from typing import Any

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider

from dashboard.cluster.connection.security import Security


def begin(mechanism: str, security: Security, deadline: float) -> Any:
    """A dialogue with `auth_bytes`, `receive` and `is_done`; tokens are fetched by `deadline`."""
    name = security.username
    if mechanism.startswith("SCRAM-"):  # RFC 5802's spelling, which kafka-python leaves to us
        name = name.replace("=", "=3D").replace(",", "=2C")
    return get_sasl_mechanism(mechanism)(
        sasl_plain_username=name,
        sasl_plain_password=security.password,
        sasl_mechanism=mechanism,
        sasl_oauth_token_provider=_Tokens(security, deadline),
    )


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Our token fetcher in the shape that kafka-python's OAUTHBEARER mechanism asks for."""

    def __init__(self, security: Security, deadline: float) -> None:
        self._security = security
        self._deadline = deadline

    def token(self) -> str:
        assert self._security.tokens is not None
        return self._security.tokens.token(max(0.1, self._deadline - time.monotonic()))
