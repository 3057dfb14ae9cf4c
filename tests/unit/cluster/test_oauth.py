"""Bearer tokens: asked for with the client's credentials, kept while good, refusals by name."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from dashboard.cluster.connection.security import OidcTokens
from dashboard.core.errors import ClusterError, SettingsError


class _Endpoint(BaseHTTPRequestHandler):
    answers: list[dict[str, Any]]
    asked: list[tuple[str, dict[str, list[str]]]]
    status = 200
    hangs: threading.Event | None = None  # until then no answer comes
    pieces: int = 0  # instead of an answer, as many bytes of one, at a pace

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.asked.append((self.headers["Authorization"], form))
        if self.hangs is not None:
            self.hangs.wait(60)
            return
        if self.pieces:
            self.send_response(self.status)
            self.end_headers()
            with suppress(OSError):  # it is not listened to so long
                for _ in range(self.pieces):
                    self.wfile.write(b" ")
                    time.sleep(0.05)
            return
        body = json.dumps(self.answers.pop(0)).encode()
        self.send_response(self.status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def endpoint() -> Iterator[Any]:
    _Endpoint.answers, _Endpoint.asked, _Endpoint.status = [], [], 200
    _Endpoint.hangs, _Endpoint.pieces = None, 0
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
    assert [source.token(60), source.token(60)] == ["one", "one"]
    authorization, form = _Endpoint.asked[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"me:hush"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


def test_a_token_about_to_end_is_asked_for_again(endpoint: Any) -> None:
    _Endpoint.answers = [{"access_token": t, "expires_in": 20} for t in ("one", "two")]
    source = tokens(endpoint)
    assert [source.token(60), source.token(60)] == ["one", "two"]


def test_an_answer_without_a_token_names_the_endpoint(endpoint: Any) -> None:
    _Endpoint.answers = [{"error": "invalid_client"}]
    with pytest.raises(ClusterError, match=str(endpoint.server_port)) as refused:
        tokens(endpoint).token(60)
    assert refused.value.code == "AUTHENTICATION_FAILED"


def jwt(seconds: float) -> str:
    claims = json.dumps({"exp": time.time() + seconds}).encode()
    return f"head.{base64.urlsafe_b64encode(claims).rstrip(b'=').decode()}.signature"


@pytest.mark.further_but("answer0-True", "answer2-False")
@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ({"access_token": jwt(3600)}, True),  # its own claim tells, where the endpoint does not
        ({"access_token": jwt(10)}, False),
        ({"access_token": jwt(10), "expires_in": 3600}, False),  # brokers go by the claim
        ({"access_token": "opaque"}, True),  # for half a minute
        ({"access_token": "opaque", "expires_in": "3600"}, True),
    ],
)
def test_a_token_is_good_for_the_shorter_of_what_is_told_and_its_claim(
    endpoint: Any, answer: dict[str, Any], kept: bool
) -> None:
    _Endpoint.answers = [answer, {"access_token": "two", "expires_in": 3600}]
    source = tokens(endpoint)
    assert source.token(60) == answer["access_token"]
    assert (source.token(60) == answer["access_token"]) is kept


def test_a_token_that_a_broker_refused_is_forgotten(endpoint: Any) -> None:
    _Endpoint.answers = [{"access_token": t, "expires_in": 3600} for t in ("one", "two")]
    source = tokens(endpoint)
    assert source.token(60) == "one"
    source.forget()
    assert source.token(60) == "two"


def test_a_refusal_says_the_endpoints_own_word_for_it(endpoint: Any) -> None:
    _Endpoint.status, _Endpoint.answers = 401, [{"error": "invalid_client\x1b[2J"}]
    with pytest.raises(ClusterError) as refused:
        tokens(endpoint).token(60)
    assert "401" in refused.value.message
    assert "(invalid_client\\x1b[2J)" in refused.value.message
    assert "hush" not in refused.value.message


def test_a_redirect_is_not_followed_with_the_secret(endpoint: Any) -> None:
    _Endpoint.status, _Endpoint.answers = 302, [{}, {"access_token": "elsewhere"}]
    with pytest.raises(ClusterError, match="302"):
        tokens(endpoint).token(60)
    assert len(_Endpoint.asked) == 1


def test_an_endpoint_that_hangs_is_waited_for_once(endpoint: Any) -> None:
    """By each connection that opens meanwhile, and by the next ones for as long again."""
    _Endpoint.hangs = threading.Event()
    source = tokens(endpoint)
    began = time.monotonic()
    with ThreadPoolExecutor(6) as pool:
        waited = [pool.submit(source.token, 1.5) for _ in range(6)]
        refused = [one.exception() for one in waited]
    took = time.monotonic() - began
    with pytest.raises(ClusterError, match="gave no token"):
        source.token(1.5)
    _Endpoint.hangs.set()
    assert took < 4.5, "as many times as long, one after the other"
    assert [getattr(error, "code", error) for error in refused] == ["AUTHENTICATION_FAILED"] * 6
    assert len(_Endpoint.asked) == 1


def test_who_has_less_time_than_the_one_that_fetches_waits_no_longer(endpoint: Any) -> None:
    _Endpoint.hangs = threading.Event()
    source = tokens(endpoint)
    with ThreadPoolExecutor(1) as pool:
        patient = pool.submit(source.token, 60)
        while not _Endpoint.asked:
            time.sleep(0.01)
        with pytest.raises(ClusterError, match="no answer in time"):
            source.token(0.1)
        source.forget()  # nor does who was refused one wait
        _Endpoint.hangs.set()
        assert isinstance(patient.exception(60), ClusterError)


def test_a_quick_refusal_is_no_reason_not_to_ask_again(endpoint: Any) -> None:
    _Endpoint.status, _Endpoint.answers = 401, [{}, {"access_token": "one", "expires_in": 3600}]
    source = tokens(endpoint)
    began = time.monotonic()
    with pytest.raises(ClusterError, match="401"):
        source.token(60)
    _Endpoint.status = 200
    time.sleep(time.monotonic() - began)
    assert source.token(60) == "one"


@pytest.mark.parametrize("status", [200, 401])
def test_an_answer_that_comes_by_the_byte_ends_with_the_time(endpoint: Any, status: int) -> None:
    _Endpoint.status, _Endpoint.pieces = status, 200
    began = time.monotonic()
    with pytest.raises(ClusterError, match="no answer in time" if status == 200 else "401"):
        tokens(endpoint).token(0.5)
    assert time.monotonic() - began < 5


def test_an_answer_that_is_too_long_is_no_token(endpoint: Any) -> None:
    _Endpoint.answers = [{"access_token": "x" * (1 << 20)}]
    with pytest.raises(ClusterError, match="longer than"):
        tokens(endpoint).token(60)


def test_an_authority_that_is_no_pem_is_named(tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(SettingsError, match=r"https\.ca\.location.*store\.jks"):
        OidcTokens("https://h/token", "me", "hush", "", str(store))
