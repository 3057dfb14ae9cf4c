"""Fetches OAuth bearer tokens by client credentials (RFC 6749, section 4.4) for SASL (KIP-768)."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dashboard.core.errors import ClusterError, SettingsError
from dashboard.core.visible import visible_cell

if TYPE_CHECKING:
    import urllib.request

_EARLY_SECONDS = 30.0
_LONGEST_REFUSAL = 4096
_PREFIX = "sasl.oauthbearer."
_AUTHORITY = "https.ca.location"


class OidcTokens:
    """One token at a time, asked for again half a minute before it ends."""

    def __init__(
        self, url: str, client_id: str, client_secret: str, scope: str, authority: str = ""
    ) -> None:
        """`authority` is a PEM file that the endpoint is trusted by, in place of the system's."""
        self.url = url
        self._tls = _trusting(authority)
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
        if not _is_web(url):
            raise SettingsError(
                f"client property '{_PREFIX}token.endpoint.url' is '{url}', no web address",
                "Write the token endpoint's https:// URL.",
                code="CLIENT_PROPERTY_INVALID",
            )
        scope = client.get(_PREFIX + "scope", "")
        return cls(url, client_id, secret, scope, client.get(_AUTHORITY, ""))

    def token(self, timeout_seconds: float) -> str:
        """A token that is still good. Raises ClusterError AUTHENTICATION_FAILED."""
        with self._lock:
            if time.monotonic() >= self._good_until:
                self._refresh(timeout_seconds)
            return self._token

    def forget(self) -> None:
        """A broker refused the token: the next one is fetched, its keys may have changed."""
        with self._lock:
            self._good_until = 0.0

    def _refresh(self, timeout_seconds: float) -> None:
        import urllib.error  # slow to import, and only this way of signing in needs them
        import urllib.parse
        import urllib.request

        form = {"grant_type": "client_credentials", "scope": self._scope}
        body = urllib.parse.urlencode({key: value for key, value in form.items() if value})
        headers = {"Authorization": f"Basic {self._basic}", "Accept": "application/json"}
        request = urllib.request.Request(self.url, body.encode(), headers)
        try:
            with _opener(self._tls).open(request, timeout=timeout_seconds) as answer:
                found = json.load(answer)
            token = str(found["access_token"])
            lifetime = _lifetime(found.get("expires_in"), token)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(f"{error}{_said(error.read(_LONGEST_REFUSAL))}") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._refused(str(error)) from error
        except (HTTPException, ArithmeticError, RecursionError) as error:  # no HTTP, or no sense
            raise self._refused(str(error)) from error
        self._token = token
        self._good_until = time.monotonic() + max(0.0, lifetime - _EARLY_SECONDS)

    def _refused(self, why: str) -> ClusterError:
        return ClusterError(
            f"the token endpoint {self.url} gave no token: {why}",
            "Check the endpoint's URL, the client's id, its secret and scope.",
            code="AUTHENTICATION_FAILED",
        )


def _is_web(url: str) -> bool:
    """Whether it is an http(s) address that can be asked at all."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket that is never closed, a port that is a word
        return False


def _trusting(authority: str) -> ssl.SSLContext:
    if not authority:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=str(Path(authority).expanduser()))
    except (OSError, ValueError, RuntimeError) as error:  # ssl.SSLError is an OSError
        raise SettingsError(
            f"client property '{_AUTHORITY}' {authority} cannot be used: {error} (PEM is needed)",
            "Write the path of the token endpoint's authority as PEM.",
            code="CLIENT_PROPERTY_INVALID",
        ) from error


def _opener(tls: ssl.SSLContext) -> urllib.request.OpenerDirector:
    """One that follows no redirect: the client's secret goes to the address that was chosen."""
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None

    return urllib.request.build_opener(NoRedirect, urllib.request.HTTPSHandler(context=tls))


def _said(body: bytes) -> str:
    """The endpoint's own `error` (RFC 6749, section 5.2), or nothing."""
    with suppress(ValueError, AttributeError):
        error = json.loads(body).get("error")
        return f" ({visible_cell(error[:80])})" if isinstance(error, str) else ""
    return ""


def _lifetime(told: object, token: str) -> float:
    """Seconds that a token is good for: as the endpoint told and as its `exp` claim has it.

    Brokers go by the claim (RFC 7519); a token without either is kept as if for a minute.
    """
    found = [] if told is None else [float(str(told))]
    with suppress(ValueError, IndexError, KeyError, TypeError):
        claims = token.split(".")[1]
        inside = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        found.append(float(inside["exp"]) - time.time())
    return min(found, default=60.0)
