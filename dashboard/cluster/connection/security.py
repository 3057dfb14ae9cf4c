"""Turns one set of client properties into what each Kafka client needs: TLS, SASL, addresses."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dashboard.cluster.connection.own_certificate import OwnCertificate
from dashboard.core.errors import ClusterError, SettingsError, anew
from dashboard.core.visible import visible_cell
from dashboard.settings import client_properties

if TYPE_CHECKING:
    import urllib.request

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PORT = re.compile("[0-9]{1,5}")
_MILLISECONDS = re.compile("[1-9][0-9]{0,9}")
# librdkafka knows SASL's mechanism by two names: both are understood.
_ALIAS = {"sasl.mechanism": "sasl.mechanisms"}


@dataclass(frozen=True, slots=True)
class Security:
    """How to open a connection: addresses, TLS context, SASL mechanism with its credentials."""

    bootstrap: tuple[tuple[str, int], ...]
    protocol: str
    client_id: str
    tls: ssl.SSLContext | None
    mechanism: str | None
    username: str
    password: str
    tokens: OidcTokens | None
    certificate: OwnCertificate | None = None

    @property
    def addresses(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.bootstrap)

    @property
    def principal(self) -> str | None:
        """Our principal as a broker without mapping rules makes it; None where it is not known."""
        if self.mechanism:
            return f"User:{self.username}" if self.username else None
        if self.certificate is None:
            return "User:ANONYMOUS"
        found = self.certificate.identity()
        return None if found is None else found.principal


def read_security(client: Mapping[str, str]) -> Security:
    """The connection that client properties (librdkafka's words) describe, checked as a whole.

    Raises SettingsError that names the key which is missing, unknown or contradicts another.
    """
    client = _checked(client)
    protocol = client.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        raise _bad("security.protocol", f"is '{protocol}', not one of {', '.join(_PROTOCOLS)}")
    sasl = protocol.startswith("SASL")
    mechanism = _mechanism(client) if sasl else None
    return Security(
        bootstrap=_addresses(client.get("bootstrap.servers", "")),
        protocol=protocol,
        client_id=client.get("client.id", "lowwater"),
        tls=_tls(client) if protocol.endswith("SSL") else None,
        mechanism=mechanism,
        username=client.get("sasl.username", ""),
        password=client.get("sasl.password", ""),
        tokens=OidcTokens.from_properties(client) if mechanism == "OAUTHBEARER" else None,
        certificate=OwnCertificate.from_properties(client) if protocol.endswith("SSL") else None,
    )


def librdkafka_properties(client: Mapping[str, str]) -> dict[str, str]:
    """The same properties for confluent-kafka, after the same checks."""
    read_security(client)
    properties = _checked(client)
    if "sasl.oauthbearer.token.endpoint.url" in properties:
        properties.setdefault("sasl.oauthbearer.method", "oidc")
    return {"client.id": "lowwater", "log_level": "0", **properties}


def _checked(client: Mapping[str, str]) -> dict[str, str]:
    named = {_ALIAS.get(key, key): value for key, value in client.items()}
    for key in named:
        if key not in client_properties.known_keys():
            raise _bad(key, "is no client property that both Kafka clients understand")
    patience = named.get("socket.timeout.ms", "1")
    if not _MILLISECONDS.fullmatch(patience):
        raise _bad("socket.timeout.ms", f"is '{patience[:40]}', no number of milliseconds above 0")
    return named


def _addresses(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        host, _, port = part.rpartition("://")[2].rpartition(":")
        if not _is_host(host) or not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
            raise _bad("bootstrap.servers", f"has '{part}', which is no HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    if not found:
        raise _bad("bootstrap.servers", "is empty")
    return tuple(found)


def _is_host(host: str) -> bool:
    """Whether a name can be looked up: the system's own look-up takes nothing that IDNA refuses."""
    try:
        return bool(host.encode("idna"))
    except UnicodeError:
        return False


def _mechanism(client: Mapping[str, str]) -> str:
    mechanism = client.get("sasl.mechanisms", "")
    if mechanism not in MECHANISMS:
        raise _bad("sasl.mechanisms", f"is '{mechanism}', not one of {', '.join(MECHANISMS)}")
    if mechanism != "OAUTHBEARER":
        for key in ("sasl.username", "sasl.password"):
            if not client.get(key):
                raise _bad(key, f"is missing, and {mechanism} needs it")
    return mechanism


def _tls(client: Mapping[str, str]) -> ssl.SSLContext:
    context = _trusting(client.get("ssl.ca.location"), client.get("ssl.ca.pem"))
    # librdkafka's default is https too (since 2.0); "none" switches the host name check off.
    context.check_hostname = (
        client.get("ssl.endpoint.identification.algorithm", "https") or "none"
    ).lower() == "https"
    _identify(context, client)
    return context


def _trusting(location: str | None, pem: str | None) -> ssl.SSLContext:
    """Trusts the authorities that are named, and the system's only where none is: as both Kafka
    clients do. Who names an authority does not want to meet whatever any other one signed.
    """
    if location == "probe":  # librdkafka's word for the system's own store
        location = None
    if location is None and pem is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it trusts nobody yet, and asks for all
    context.verify_flags = ssl.create_default_context().verify_flags  # strict since Python 3.13
    if location is not None:
        with _explained("ssl.ca.location", location):
            path = Path(location).expanduser()
            is_folder = path.is_dir()
            context.load_verify_locations(
                cafile=None if is_folder else str(path), capath=str(path) if is_folder else None
            )
    if pem is not None:
        with _explained("ssl.ca.pem"):
            context.load_verify_locations(cadata=_unescaped(pem))
    return context


def _identify(context: ssl.SSLContext, client: Mapping[str, str]) -> None:
    password = client.get("ssl.key.password", "")
    certificate = client.get("ssl.certificate.location")
    inline = client.get("ssl.certificate.pem")
    if certificate:
        with _explained("ssl.certificate.location", certificate):
            context.load_cert_chain(certificate, client.get("ssl.key.location"), password)
    elif inline:
        # Python's ssl loads a key from a file only: one that none but us can read, for an instant.
        body = f"{_unescaped(inline)}\n{_unescaped(client.get('ssl.key.pem', ''))}\n"
        with _explained("ssl.certificate.pem"), _private_file(body) as path:
            context.load_cert_chain(path, None, password)


@contextmanager
def _explained(key: str, location: str = "") -> Iterator[None]:
    try:
        yield
    # ssl.SSLError is an OSError; a RuntimeError says that there is no such home folder
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise _bad(key, f"{location} cannot be used: {error} (PEM is needed)".strip()) from error


@contextmanager
def _private_file(body: str) -> Iterator[str]:
    handle, path = tempfile.mkstemp(prefix="lowwater-", suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(body)
        yield path
    finally:
        Path(path).unlink()


def _unescaped(pem: str) -> str:
    return pem.replace("\\n", "\n")


def _bad(key: str, problem: str) -> SettingsError:
    return SettingsError(
        f"client property '{key}' {problem}",
        "Correct it in the settings' [clusters.NAME] section or in the client config file.",
        code="CLIENT_PROPERTY_INVALID",
    )


# Fetches OAuth bearer tokens by client credentials (RFC 6749, section 4.4) for SASL (KIP-768).

_EARLY_SECONDS = 30.0
_LONGEST_ANSWER = 1 << 20
_LONGEST_REFUSAL = 4096
_PREFIX = "sasl.oauthbearer."
_AUTHORITY = "https.ca.location"
_TOO_LATE = "no answer in time"


class OidcTokens:
    """One token at a time, asked for again half a minute before it ends.

    Thread-safe: connections that open side by side fetch it once. What came of it where none came
    stands for as long again as it took: an endpoint that hangs is waited for once, not by each.
    """

    def __init__(
        self, url: str, client_id: str, client_secret: str, scope: str, authority: str = ""
    ) -> None:
        """`authority` is a PEM file that the endpoint is trusted by, in place of the system's."""
        self.url = url
        self._tls = _oauth_trusting(authority)
        self._basic = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self._scope = scope
        self._token = ""
        self._good_until = 0.0
        self._failure: ClusterError | None = None
        self._failed_until = 0.0
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
        deadline = time.monotonic() + timeout_seconds
        if not self._lock.acquire(timeout=timeout_seconds):
            raise self._refused(_TOO_LATE)
        try:
            if time.monotonic() >= self._good_until:
                self._fetch(deadline)
            return self._token
        finally:
            self._lock.release()

    def forget(self) -> None:
        """A broker refused the token: the next one is fetched, its keys may have changed."""
        self._good_until = 0.0  # without the lock: whoever fetches one now fetches a newer one

    def _fetch(self, deadline: float) -> None:
        began = time.monotonic()
        if self._failure is not None and began < self._failed_until:
            raise anew(self._failure)
        try:
            self._refresh(deadline)
        except ClusterError as error:
            self._failure = ClusterError(error.message, error.next_step, code=error.code)
            self._failed_until = 2 * time.monotonic() - began
            raise

    def _refresh(self, deadline: float) -> None:
        import urllib.error  # slow to import, and only this way of signing in needs them
        import urllib.parse
        import urllib.request

        form = {"grant_type": "client_credentials", "scope": self._scope}
        body = urllib.parse.urlencode({key: value for key, value in form.items() if value})
        headers = {"Authorization": f"Basic {self._basic}", "Accept": "application/json"}
        request = urllib.request.Request(self.url, body.encode(), headers)
        try:
            left = max(0.001, deadline - time.monotonic())
            with _opener(self._tls).open(request, timeout=left) as answer:
                found = json.loads(_body(answer, deadline, _LONGEST_ANSWER))
            token = str(found["access_token"])
            lifetime = _lifetime(found.get("expires_in"), token)
        except urllib.error.HTTPError as error:
            said = ""
            with error, suppress(OSError, ValueError, HTTPException):
                said = _said(_body(error, deadline, _LONGEST_REFUSAL))
            raise self._refused(f"{error}{said}") from error
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


def _oauth_trusting(authority: str) -> ssl.SSLContext:
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


def _body(answer: Any, deadline: float, most: int) -> bytes:
    """All that it says, in `most` bytes and by the deadline: a socket's time is each receive's."""
    body = b""
    while piece := answer.read1(most):
        body += piece
        if len(body) > most:
            raise ValueError(f"its answer is longer than {most} bytes")
        if time.monotonic() >= deadline:
            raise TimeoutError(_TOO_LATE)
    return body


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
