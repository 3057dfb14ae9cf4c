"""A request that changes something is delivered while its look counts, or never."""

from __future__ import annotations

import ctypes
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
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


@contextmanager
def frozen(there: socket.socket) -> Iterator[None]:
    """Every segment that comes for this end is lost on its way, as when a network pauses."""
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF_RET 0
    program = struct.pack("HL", 1, ctypes.addressof(drop_all))
    there.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER
    yield
    there.setsockopt(socket.SOL_SOCKET, 27, 0)  # SO_DETACH_FILTER


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone has it")
@pytest.mark.parametrize(("ask", "comes"), [("ask", True), ("ask_now_or_never", False)])
def test_what_a_frozen_network_kept_from_the_broker_does_not_come_when_it_is_back(
    stuck: socket.socket, monkeypatch: pytest.MonkeyPatch, ask: str, comes: bool
) -> None:
    """While its answer is waited for: for a wait-all purge that may be minutes."""
    monkeypatch.setattr("dashboard.cluster.connection.wire._TAKEN_WITHIN_MS", 500)
    host, port = stuck.getsockname()
    wire = Wire(host, port, read_security({"bootstrap.servers": f"{host}:{port}"}), Owner())
    wire._connect(time.monotonic() + 5)
    there, _ = stuck.accept()
    asked: Any = getattr(wire, ask)

    def waits() -> None:
        with pytest.raises(ClusterError) as lost:
            asked(lambda _: Frame(), time.monotonic() + 3)
        assert lost.value.code == "ANSWER_LOST"

    with there, ThreadPoolExecutor(1) as pool, pytest.MonkeyPatch.context() as patched:
        patched.setattr("dashboard.cluster.connection.wire.response_to", lambda _: SimpleNamespace)
        with frozen(there):
            waiting = pool.submit(waits)
            if comes:
                time.sleep(0.5)
            else:
                waiting.result(2)  # the kernel gave up, before anybody stopped waiting
        there.settimeout(2)
        with suppress(TimeoutError, ConnectionResetError):
            assert bool(there.recv(1)) is comes
            comes = False
        assert not comes
        waiting.result()
