"""What several tests of purges share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.purge.journal.journal import Journal
from tests.unit.purge.room import Room


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A new journal in a state folder of its own."""
    made = Journal(tmp_path / "state" / "journal.sqlite")
    yield made
    made.close()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """A plan of one partition, a cluster of fakes and a journal, whose chain holds at the end."""
    made = Room(tmp_path)
    yield made
    assert made.journal.verify().ok
    made.journal.close()
