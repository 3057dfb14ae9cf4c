"""What several tests of purges share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.purge.journal import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    """A new journal in a state folder of its own."""
    made = Journal(tmp_path / "state" / "journal.sqlite")
    yield made
    made.close()
