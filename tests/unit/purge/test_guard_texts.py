"""Every guard has words, and the documentation names every guard."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dashboard import guard_texts

_FACTS = {
    "why": "broker 2 gave no answer", "planned": "A", "found": "B", "topic": "orders",
    "policy": "compact", "target_offset": 9, "last_stable_offset": 8, "group_id": "billing",
    "committed_offset": 4, "records": 5, "who": "Group billing", "bytes_out": 10, "explained": 5,
    "brokers": "broker 3", "adding": "[4]", "removing": "[1]", "broker_id": 1, "log_dir": "/d2",
    "partitions": 12, "limit": 10,
}  # fmt: skip


@pytest.mark.parametrize("name", guard_texts.names())
def test_every_guard_says_why_and_what_lifts_it(name: str) -> None:
    found = guard_texts.guard(name, **_FACTS)
    assert found.name == name
    assert "{" not in found.reason + found.lift
    assert found.lift.startswith("Not liftable") == (name in guard_texts.NEVER_LIFTABLE)


def test_the_table_of_guards_names_every_guard_and_tests_that_exist() -> None:
    tests = Path(__file__).parent.parent.parent
    text = (tests.parent / "docs" / "guards.md").read_text()
    listed = re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)
    assert sorted(listed) == sorted(guard_texts.names())
    known = {path.name for path in tests.rglob("test_*.py")}
    assert set(re.findall(r"test_\w+\.py", text)) <= known


def test_lift_of_an_unread_group_spells_the_override_for_that_group() -> None:
    lift = guard_texts.guard("unread-by-group", **_FACTS).lift
    assert '--override "unread-by-group:billing=WHY"' in lift
