"""A broker's host for the tests of sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.orphans.sweep_host import Host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    made.start_broker()
    yield made
    made.stop_broker()
