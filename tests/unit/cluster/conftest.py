"""Fixtures of the cluster's unit tests."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def free_port() -> Iterator[int]:
    """A loopback port that refuses: it is ours, so that nobody else can listen on it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield probe.getsockname()[1]
