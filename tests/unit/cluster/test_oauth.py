"""Bearer tokens: asked for with the client's credentials, kept while good, refusals by name."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from dashboard.cluster.oauth import OidcTokens
from dashboard.errors import ClusterError


class _Endpoint(BaseHTTPRequestHandler):
    answers: list[dict[str, Any]]
    asked: list[tuple[str, dict[str, list[str]]]]

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.asked.append((self.headers["Authorization"], form))
        body = json.dumps(self.answers.pop(0)).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def endpoint() -> Iterator[Any]:
    _Endpoint.answers, _Endpoint.asked = [], []
    with HTTPServer(("127.0.0.1", 0), _Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def tokens(server: Any) -> OidcTokens:
    prefix = "sasl.oauthbearer."
    return OidcTokens.from_properties(
        {
            f"{prefix}token.endpoint.url": f"http://127.0.0.1:{server.server_port}/token",
            f"{prefix}client.id": "me",
            f"{prefix}client.secret": "hush",
            f"{prefix}scope": "kafka",
        }
    )


def test_a_token_is_kept_while_it_is_good(endpoint: Any) -> None:
    _Endpoint.answers = [{"access_token": "one", "expires_in": 3600}]
    source = tokens(endpoint)
    assert [source.token(2), source.token(2)] == ["one", "one"]
    authorization, form = _Endpoint.asked[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"me:hush"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


def test_a_token_about_to_end_is_asked_for_again(endpoint: Any) -> None:
    _Endpoint.answers = [{"access_token": t, "expires_in": 20} for t in ("one", "two")]
    source = tokens(endpoint)
    assert [source.token(2), source.token(2)] == ["one", "two"]


def test_an_answer_without_a_token_names_the_endpoint(endpoint: Any) -> None:
    _Endpoint.answers = [{"error": "invalid_client"}]
    with pytest.raises(ClusterError, match=str(endpoint.server_port)) as refused:
        tokens(endpoint).token(2)
    assert refused.value.code == "AUTHENTICATION_FAILED"
