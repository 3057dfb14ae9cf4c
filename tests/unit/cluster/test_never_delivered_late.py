"""A request that changes something is delivered while its look counts, or never."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.cluster.connection.own_certificate import Owner
from dashboard.cluster.connection.security import read_security
from dashboard.cluster.connection.wire import Wire
from dashboard.core.errors import ClusterError

ROOM, SENT = 4096, 200_000  # bytes: what the broker's machine takes unread, and what comes


class Frame:
    """A request of many bytes."""

    API_KEY, API_VERSION = 21, 2

    def with_header(self, **_: object) -> None:
        """As kafka-python's do."""

    def encode(self, **_: object) -> bytes:
        return b"x" * SENT


@pytest.fixture
def stuck() -> Iterator[socket.socket]:
    """A broker that listens, whose machine takes a few bytes and then no more for a while."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, ROOM)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    yield listening
    listening.close()


def delivered(stuck: socket.socket, ask: str) -> int:
    """The bytes that come once we have waited in vain for an answer, and are gone."""
    host, port = stuck.getsockname()
    wire = Wire(host, port, read_security({"bootstrap.servers": f"{host}:{port}"}), Owner())
    wire._connect(time.monotonic() + 5)
    there, _ = stuck.accept()
    with there, pytest.MonkeyPatch.context() as patched:
        patched.setattr("dashboard.cluster.connection.wire.response_to", lambda _: SimpleNamespace)
        with pytest.raises(ClusterError) as lost:
            asked: Any = getattr(wire, ask)
            asked(lambda _: Frame(), time.monotonic() + 0.3)
        assert lost.value.code == "ANSWER_LOST"
        came = 0
        there.settimeout(5)
        try:
            while more := there.recv(65_536):
                came += len(more)
        except ConnectionResetError:
            pass
        return came


def test_what_was_not_taken_is_dropped_once_nobody_waits_for_its_answer(
    stuck: socket.socket,
) -> None:
    """The network froze: when it is back, the groups may have been reset to read all again."""
    assert delivered(stuck, "ask") == SENT, "a read may come late"
    assert delivered(stuck, "ask_now_or_never") < SENT


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone has it")
def test_the_kernel_tries_for_as_long_as_a_look_counts_and_no_longer(stuck: socket.socket) -> None:
    host, port = stuck.getsockname()
    wire = Wire(host, port, read_security({"bootstrap.servers": f"{host}:{port}"}), Owner())
    wire._connect(time.monotonic() + 5)
    told = []

    def make(_: Wire) -> Frame:
        assert wire._socket is not None
        ours = wire._socket
        told.append(ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        return Frame()

    with pytest.raises(ClusterError):
        wire.ask_now_or_never(make, time.monotonic() + 0.1)
    assert told == [5000]
