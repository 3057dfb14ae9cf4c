"""A signed-in connection is used while its session lasts, and no longer (KIP-368)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dashboard.cluster.connection import wire
from dashboard.cluster.connection.own_certificate import Owner
from dashboard.cluster.connection.security import read_security


@pytest.mark.parametrize(
    ("lifetime_ms", "later_seconds", "usable"),
    [(0, 1e9, True), (10_000, 8.4, True), (10_000, 8.6, False)],
)
def test_a_connection_is_left_before_its_session_ends(
    monkeypatch: pytest.MonkeyPatch, lifetime_ms: int, later_seconds: float, usable: bool
) -> None:
    now = 100.0
    monkeypatch.setattr(wire, "time", SimpleNamespace(monotonic=lambda: now))
    one = wire.Wire("h", 1, read_security({"bootstrap.servers": "h:1"}), Owner())
    assert one.usable
    one._note_session(SimpleNamespace(session_lifetime_ms=lifetime_ms))
    now += later_seconds
    assert one.usable is usable
    one.close()
    assert not one.usable
