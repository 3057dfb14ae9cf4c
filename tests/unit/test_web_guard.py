"""The guard of the page server: own names and own pages pass, everything else is refused."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dashboard.web_guard import LOOPBACK_NAMES, Message, OwnPagesOnly, Receive, Send

PUBLIC = "https://lowwater.example.org"
HERE = "127.0.0.1:8501"


async def answering(scope: Message, receive: Receive, send: Send) -> None:
    headers = [(b"Content-Security-Policy", b"anything"), (b"x-mine", b"1")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"pages"})


def asked(kind: str = "http", **headers: str) -> list[Message]:
    """What goes back to a request with these headers."""
    guard = OwnPagesOnly(answering, [*LOOPBACK_NAMES, "lowwater.example.org"], [PUBLIC])
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": f"{kind}.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(guard({"type": kind, "headers": pairs}, receive, send))
    return sent


@pytest.mark.parametrize(
    "headers",
    [
        {"host": HERE},
        {"host": "LOCALHOST:8501", "origin": "http://localhost:8501"},
        {"host": "[::1]:8501", "origin": "http://[::1]:8501"},
        {"host": "lowwater.example.org", "origin": PUBLIC},
        {"host": HERE, "origin": PUBLIC},  # a proxy that sets Host to where it forwards
    ],
)
def test_own_names_and_own_pages_pass(headers: dict[str, str]) -> None:
    assert asked(**headers)[0]["status"] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": ""},
        {"host": "rebound.example:8501"},
        {"host": "127.0.0.1.rebound.example"},
        {"host": "127.0.0.1@rebound.example"},
        {"host": "127.0.0.1:port"},
        {"host": "127.0.0.1/x"},
        {"host": "192.0.2.7:8501"},
        {"host": HERE, "origin": "null"},
        {"host": HERE, "origin": ""},
        {"host": HERE, "origin": "http://127.0.0.1:9000"},  # another program of this machine
        {"host": HERE, "origin": "http://localhost:8501"},
        {"host": HERE, "origin": "https://lowwater.example.org:444"},
        {"host": HERE, "origin": "http://lowwater.example.org"},
        {"host": HERE, "origin": "https://rebound.example"},
        {"host": HERE, "origin": "file://127.0.0.1:8501"},
        {"host": "rebound.example", "origin": "http://rebound.example"},
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_foreign_names_and_foreign_pages_are_refused(kind: str, headers: dict[str, str]) -> None:
    (first, *_) = asked(kind, **headers)

    if kind == "websocket":
        assert first == {"type": "websocket.close", "code": 1008}
    else:
        assert first["status"] == 403


def test_two_hosts_or_two_origins_are_refused() -> None:
    guard = OwnPagesOnly(answering, LOOPBACK_NAMES, [])

    assert guard.refusal([HERE, HERE], [])
    assert guard.refusal([HERE], [f"http://{HERE}", f"http://{HERE}"])


def test_every_answer_forbids_other_servers_and_frames() -> None:
    for answer in (asked(host=HERE), asked(host="rebound.example")):
        headers: dict[bytes, Any] = {k.lower(): v for k, v in answer[0]["headers"]}
        policy = headers[b"content-security-policy"].decode()
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
        assert "http" not in policy and "*" not in policy
        assert headers[b"x-content-type-options"] == b"nosniff"
    assert dict(asked(host=HERE)[0]["headers"])[b"x-mine"] == b"1"


_STARTED = """
import pathlib, sys
import dashboard.web
from dashboard.core.errors import SettingsError
from dashboard.ui.session import context
pathlib.Path(sys.argv[1]).write_text("")
try:
    print(context.settings().people)
except SettingsError as error:
    print(error.code)
"""


def test_who_may_look_is_decided_as_the_server_starts_not_by_the_first_visit(
    tmp_path: Path,
) -> None:
    file = tmp_path / "lowwater.toml"
    file.write_text('[people]\nviewers = ["*"]\n')
    ended = subprocess.run(
        [sys.executable, "-c", _STARTED, str(file)], capture_output=True, text=True, check=True,
        env={**os.environ, "LOWWATER_SETTINGS": str(file)}, timeout=240,
    )  # fmt: skip
    assert ended.stdout.split() == ["PEOPLE_GONE"]
