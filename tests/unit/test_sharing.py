"""Which tests run in one process: each file in one unit, and no unit of files that are gone."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

from tests import sharing

ROOT = Path(__file__).parent.parent.parent
FILES = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "tests").rglob("test_*.py"))


def test_every_pattern_names_files_and_no_file_is_in_two_units() -> None:
    named = [
        file
        for patterns in sharing.TOGETHER.values()
        for pattern in patterns
        for file in _matches(pattern)
    ]
    assert sorted(named) == sorted(set(named))


def test_units_begin_in_their_order_and_all_others_after_them() -> None:
    of_units = [sharing.rank(file) for file in FILES if sharing.unit(file) != file]
    assert {*of_units} == {*range(len(sharing.TOGETHER))}
    alone = [file for file in FILES if sharing.unit(file) == file]
    assert {sharing.rank(file) for file in alone} == {len(sharing.TOGETHER)}


def test_a_file_of_broker_tests_that_is_alone_starts_brokers_of_its_own() -> None:
    """The shared ones would start once more for it."""
    alone = [f for f in FILES if f.startswith("tests/brokers/") and sharing.unit(f) == f]
    starts = re.compile(r"\b(LocalCluster|lone_bench)\(")
    assert [file for file in alone if not starts.search((ROOT / file).read_text())] == []


def _matches(pattern: str) -> list[str]:
    found = [file for file in FILES if fnmatch(file, pattern)]
    assert found, f"{pattern} names no file"
    return found
