"""100,000 partitions x 3 with an inventory of 120 segments a replica, 36 million segments."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.spark_history import ROOT

_SECONDS = 3000


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(_SECONDS)
def test_36_million_segments_are_analyzed_in_little_memory() -> None:
    """The bench holds the driver to 700 MiB and each task's Python to 1 GiB."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.bench_memory", "inventory"],
        cwd=ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("peak memory: driver") == 2
