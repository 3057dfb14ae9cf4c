"""A name that leads to several addresses: one that is silent leaves time for the next."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from dashboard.cluster.connection.connection import _hung
from dashboard.cluster.connection.own_certificate import Owner
from dashboard.cluster.connection.security import read_security
from dashboard.cluster.connection.wire import Wire
from dashboard.core.errors import ClusterError
from tests.support.fake_broker import FakeBroker

_UNSPOKEN = 12345  # a family of addresses that no machine knows


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Where a connection is never refused, and never made: others wait to be accepted already."""
    with ExitStack() as open_sockets:
        server = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            one = open_sockets.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(server.getsockname())
        yield server.getsockname()[1]


def opened(monkeypatch: pytest.MonkeyPatch, seconds: float, *found: tuple[int, int]) -> None:
    """Open a connection to a name of these addresses, each a family with a port here."""

    def looked_up(*_: Any, **__: Any) -> Any:
        return [(f, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for f, port in found]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    wire = Wire("kafka.test", 9092, read_security({"bootstrap.servers": "kafka.test:1"}), Owner())
    wire.open(seconds)
    wire.close()


def test_a_silent_address_leaves_time_for_the_next(
    monkeypatch: pytest.MonkeyPatch, silent_port: int
) -> None:
    with FakeBroker() as broker:
        found = [(_UNSPOKEN, 1), (socket.AF_INET, silent_port), (socket.AF_INET, broker.port)]
        opened(monkeypatch, 3, *found)


def test_who_was_silent_at_one_address_and_refused_at_the_other_hangs(
    monkeypatch: pytest.MonkeyPatch, silent_port: int, free_port: int
) -> None:
    """It is left alone for a while: to find out again would take as long."""
    with pytest.raises(ClusterError) as lost:
        opened(monkeypatch, 1, (socket.AF_INET, silent_port), (socket.AF_INET, free_port))
    assert lost.value.code == "CLUSTER_UNREACHABLE"
    assert _hung(lost.value)
