"""Every test that docs/faults.md names exists, and is slow exactly where it says so."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"(slow )?`([\w/]+\.py)::(test_\w+)`")


def test_the_tests_that_prove_each_fault_are_there() -> None:
    named = NAMED.findall((ROOT / "docs" / "faults.md").read_text(encoding="utf-8"))
    assert len(named) > 30
    for slow, file, test in named:
        path = ROOT / file if "/" in file else ROOT / "tests" / "brokers" / file
        text = path.read_text(encoding="utf-8")
        before, found, _ = text.partition(f"def {test}(")
        assert found, f"{file} has no {test}"
        decorators = before.rpartition("\n\n\n")[2]
        assert bool(slow) == decorators.startswith("@pytest.mark.slow"), f"{file}::{test}"
