"""Threads that read their first document of a kind at once all get it."""

from __future__ import annotations

import subprocess
import sys

MANY = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import make_dataclass
from dashboard.core.canonical import read

sys.setswitchinterval(1e-6)
names = [f"a{number}" for number in range(20)]
with ThreadPoolExecutor(16) as pool:
    for _ in range(400):
        one = make_dataclass("One", [(name, int) for name in names], frozen=True, slots=True)
        fields = [("parts", tuple[one, ...]), ("name", str)]
        all_ = make_dataclass("All", fields, frozen=True, slots=True)
        document = {"name": "x", "parts": [dict.fromkeys(names, 1)] * 50}
        together = threading.Barrier(16)

        def parts(_):
            together.wait()
            return len(read(document, all_).parts)

        assert list(pool.map(parts, range(16))) == [50] * 16
"""


def test_a_kind_is_learnt_by_one_thread_alone() -> None:
    """msgspec 0.22 ends the process where two do it at once: commits of an archive are read so."""
    done = subprocess.run(
        [sys.executable, "-c", MANY], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
