"""Fetches OAuth bearer tokens by client credentials (RFC 6749, section 4.4) for SASL (KIP-768)."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping

from dashboard.errors import ClusterError, SettingsError

_EARLY_SECONDS = 30.0
_PREFIX = "sasl.oauthbearer."


class OidcTokens:
    """One token at a time, asked for again half a minute before it ends."""

    def __init__(self, url: str, client_id: str, client_secret: str, scope: str) -> None:
        self.url = url
        self._basic = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self._scope = scope
        self._token = ""
        self._good_until = 0.0
        self._lock = threading.Lock()

    @classmethod
    def from_properties(cls, client: Mapping[str, str]) -> OidcTokens:
        """Out of `sasl.oauthbearer.*`. Raises SettingsError that names a missing one."""
        names = ("token.endpoint.url", "client.id", "client.secret")
        for name in names:
            if not client.get(_PREFIX + name):
                raise SettingsError(
                    f"client property '{_PREFIX}{name}' is missing, and OAUTHBEARER needs it",
                    "Add the token endpoint's URL, the client's id and its secret.",
                    code="CLIENT_PROPERTY_INVALID",
                )
        url, client_id, secret = (client[_PREFIX + name] for name in names)
        if not url.startswith(("https://", "http://")):
            raise SettingsError(
                f"client property '{_PREFIX}token.endpoint.url' is '{url}', no web address",
                "Write the token endpoint's https:// URL.",
                code="CLIENT_PROPERTY_INVALID",
            )
        return cls(url, client_id, secret, client.get(_PREFIX + "scope", ""))

    def token(self, timeout_seconds: float) -> str:
        """A token that is still good. Raises ClusterError AUTHENTICATION_FAILED."""
        with self._lock:
            if time.monotonic() >= self._good_until:
                self._refresh(timeout_seconds)
            return self._token

    def _refresh(self, timeout_seconds: float) -> None:
        import urllib.parse  # slow to import, and only this way of signing in needs them
        import urllib.request

        form = {"grant_type": "client_credentials", "scope": self._scope}
        body = urllib.parse.urlencode({key: value for key, value in form.items() if value})
        request = urllib.request.Request(
            self.url, body.encode(), {"Authorization": f"Basic {self._basic}"}
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_seconds) as answer:
                found = json.load(answer)
            self._token = str(found["access_token"])
            lifetime = float(found.get("expires_in", 60))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ClusterError(
                f"the token endpoint {self.url} gave no token: {error}",
                "Check the endpoint's URL, the client's id, its secret and scope.",
                code="AUTHENTICATION_FAILED",
            ) from error
        self._good_until = time.monotonic() + max(0.0, lifetime - _EARLY_SECONDS)
