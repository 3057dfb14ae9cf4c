"""An analysis whose tasks run in the test's process: rules alone, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics import tasks
from tests.support import in_process
from tests.support import lab as labs


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> labs.Lab:
    monkeypatch.setattr(tasks, "run", in_process.run)
    return labs.empty(tmp_path)
