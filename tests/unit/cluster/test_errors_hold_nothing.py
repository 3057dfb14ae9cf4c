"""What a broker's outage leaves in memory: an error in words, and none of who asked."""

from __future__ import annotations

import gc
import socket
import weakref
from collections.abc import Iterator
from datetime import timedelta

import pytest

from dashboard.cluster.connection.connection import Connection
from dashboard.cluster.connection.security import read_security
from dashboard.core.errors import ClusterError


class Tables(list[int]):
    """What a caller holds while it asks."""


@pytest.fixture
def refusing() -> Iterator[Connection]:
    """A cluster whose brokers are gone: nobody listens there."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        servers = f"127.0.0.1:{port}"
        made = Connection(read_security({"bootstrap.servers": servers}), timedelta(seconds=5))
        made.remember({1: ("127.0.0.1", port), 2: ("127.0.0.1", port)})
        yield made
        made.close()


@pytest.fixture(autouse=True)
def no_garbage_is_looked_for() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_what_its_callers_held_goes_with_their_call(refusing: Connection) -> None:
    """It stayed until garbage was looked for: `watch` grew by a snapshot's tables each time."""
    held: list[weakref.ref[Tables]] = []

    def snapshot() -> dict[int, object]:
        tables = Tables([1])
        held.append(weakref.ref(tables))
        answers = refusing.ask_each(dict.fromkeys((1, 2), lambda *_: len(tables)))
        assert all(isinstance(answer, ClusterError) for answer in answers.values())
        return answers

    kept = [snapshot() for _ in range(3)]
    assert [one() for one in held] == [None, None, None]
    assert "connection refused" in str(kept[0][1]).lower()


def test_an_error_that_ends_the_call_keeps_none_of_it_either(
    refusing: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[weakref.ref[Tables]] = []

    def refuse(*_: object) -> object:
        raise ClusterError("SASL failed", "Correct the password.", code="AUTHENTICATION_FAILED")

    monkeypatch.setattr(refusing, "_ask_address", refuse)

    def snapshot() -> str:
        tables = Tables([1])
        held.append(weakref.ref(tables))
        try:
            refusing.ask_any(lambda *_: len(tables))
        except ClusterError as refused:
            return refused.code
        return "answered"

    assert [snapshot() for _ in range(3)] == ["AUTHENTICATION_FAILED"] * 3
    assert [one() for one in held] == [None, None, None]
