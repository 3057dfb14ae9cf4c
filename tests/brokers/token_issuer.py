"""An OAuth token endpoint for tests: signed tokens of any lifetime, and the keys to check them."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE, ISSUER, SCOPE = "kafka", "http://lowwater.test", "kafka-read"
CLIENT, SECRET = "lowwater-oauth", "oauth-secret"


class TokenIssuer:
    """Client credentials (RFC 6749, 4.4) for one client; a context manager that ends its server.

    `lifetime` is that of the next tokens in seconds, `issued` how many there were, `scopes` what
    was asked for so far, `subject` the principal that they name, `strange` signs them with a key
    that is not in the set.
    """

    def __init__(self, keys: Path, certificate: Path) -> None:
        """`keys` is where the JSON Web Key Set is written; `certificate`: key and chain, PEM."""
        self.lifetime = 3600.0
        self.issued = 0
        self.scopes: set[str] = set()
        self.subject = CLIENT
        self.strange = False
        self.says_lifetime = True
        self._id = uuid.uuid4().hex
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        keys.write_text(json.dumps({"keys": [self._public()]}))
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                code, answer = issuer.answer(self.headers.get("Authorization", ""), form)
                body = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> TokenIssuer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, basic: str, form: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """HTTP status and JSON of one request for a token."""
        self.scopes.update(form.get("scope", ()))
        wanted = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if basic != wanted:
            return 401, {"error": "invalid_client", "error_description": "unknown client"}
        if form.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        self.issued += 1
        told = {"expires_in": self.lifetime} if self.says_lifetime else {}
        return 200, {"access_token": self._token(), "token_type": "Bearer", **told}

    def _token(self) -> str:
        now = time.time()
        head = {"alg": "RS256", "typ": "JWT", "kid": self._id}
        claims = {
            "sub": self.subject, "aud": AUDIENCE, "iss": ISSUER, "scope": SCOPE,
            "iat": int(now), "exp": int(now + self.lifetime),
        }  # fmt: skip
        text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        key = rsa.generate_private_key(65537, 2048) if self.strange else self._key
        signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_encoded(signature)}"

    def _public(self) -> dict[str, str]:
        numbers = self._key.public_key().public_numbers()
        return {
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": self._id,
            "n": _encoded(numbers.n.to_bytes(256, "big")),
            "e": _encoded(numbers.e.to_bytes(3, "big")),
        }  # fmt: skip


def broker_properties(keys: Path) -> dict[str, str]:
    """A listener's properties that check tokens against the key set, to the second."""
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": login,
        "oauthbearer.sasl.server.callback.handler.class": handler,
        "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        "oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        "oauthbearer.sasl.oauthbearer.clock.skew.seconds": "0",
    }


def jvm_flags(keys: Path) -> list[str]:
    """Kafka 4 reads keys only from where its operator allows (CVE-2025-27817)."""
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"]


def _encoded(body: bytes) -> str:
    return base64.urlsafe_b64encode(body).rstrip(b"=").decode()
