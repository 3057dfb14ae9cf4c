"""A small OpenID provider on loopback: discovery, authorization code with PKCE, signed tokens."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "lowwater-pages", "provider-secret-4711"


class OidcProvider:
    """`people` maps a name, as its sign-in page shows it, to further claims of that person.

    `age` is how many seconds ago the next tokens say they were signed; `strange` signs them with a
    key that the provider does not publish; `asked` holds each query of the sign-in page.
    """

    def __init__(self, people: Mapping[str, Mapping[str, Any]]) -> None:
        self.people = {name: dict(claims) for name, claims in people.items()}
        self.age = 0.0
        self.strange = False
        self.asked: list[dict[str, str]] = []
        self.url = ""
        self._key = RSAKey.generate_key(2048, {"kid": "published"})
        self._other = RSAKey.generate_key(2048, {"kid": "published"})
        self._codes: dict[str, tuple[str, dict[str, str]]] = {}

    def configuration(self) -> dict[str, Any]:
        """What /.well-known/openid-configuration says."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "jwks_uri": f"{self.url}/keys",
            "end_session_endpoint": f"{self.url}/leave",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
        }

    def keys(self) -> dict[str, Any]:
        """The published keys."""
        return {"keys": [{**self._key.as_dict(private=False), "use": "sig", "alg": "RS256"}]}

    def sign_in_page(self, query: dict[str, str]) -> str:
        """A link for each person."""
        self.asked.append(query)
        assert query["client_id"] == CLIENT_ID and query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256" and query["nonce"] and query["state"]
        links = (
            f'<p><a href="/as?{html.escape(urlencode({**query, "as": name}))}">{name}</a></p>'
            for name in self.people
        )
        return f"<!doctype html><title>Provider</title><h1>Who are you?</h1>{''.join(links)}"

    def chosen(self, query: dict[str, str]) -> str:
        """Where the browser goes with its code."""
        code = secrets.token_urlsafe(16)
        self._codes[code] = (query["as"], query)
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def tokens(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """The answer for a code that was not used, from the client that it was made for."""
        given = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        name, query = self._codes.pop(form.get("code", ""), ("", {}))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            authorization != f"Basic {given}"
            or challenge != query.get("code_challenge")
            or form.get("redirect_uri") != query["redirect_uri"]
        ):
            return None
        key = self._other if self.strange else self._key
        claims = self._claims(name, query["nonce"])
        return {
            "access_token": secrets.token_urlsafe(16), "token_type": "Bearer", "expires_in": 300,
            "id_token": jwt.encode({"alg": "RS256", "kid": "published"}, claims, key),
        }  # fmt: skip

    def _claims(self, name: str, nonce: str) -> dict[str, Any]:
        now = time.time()
        return {
            "iss": self.url, "aud": CLIENT_ID, "sub": f"id-of-{name}", "nonce": nonce,
            "iat": int(now - self.age), "exp": int(now + 300), "email": name,
            "email_verified": True, **self.people[name],
        }  # fmt: skip


@contextmanager
def oidc_provider(people: Mapping[str, Mapping[str, Any]]) -> Iterator[OidcProvider]:
    """The provider while it listens on a free port of this machine."""
    provider = OidcProvider(people)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(provider))
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(provider: OidcProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query))
            if parts.path == "/.well-known/openid-configuration":
                self._json(provider.configuration())
            elif parts.path == "/keys":
                self._json(provider.keys())
            elif parts.path == "/authorize":
                self._send(200, "text/html", provider.sign_in_page(query))
            elif parts.path == "/as":
                self._go(provider.chosen(query))
            elif parts.path == "/leave":
                self._go(query["post_logout_redirect_uri"])
            else:
                self._send(404, "text/plain", "")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {key: values[0] for key, values in parse_qs(body).items()}
            found = provider.tokens(form, self.headers.get("Authorization", ""))
            self._json(found or {"error": "invalid_grant"}, 200 if found else 400)

        def _json(self, value: object, status: int = 200) -> None:
            self._send(status, "application/json", json.dumps(value))

        def _go(self, where: str) -> None:
            self.send_response(302)
            self.send_header("Location", where)
            self.end_headers()

        def _send(self, status: int, kind: str, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
