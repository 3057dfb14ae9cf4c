"""Every guard has words, and the documentation names every guard."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dashboard.cli.purge.lift_flags import parse_lift, parse_waive
from dashboard.core.visible import visible_cell
from dashboard.purge.plan.guards import Lift, Waive
from dashboard.safety import guard_texts

_FACTS = {
    "why": "broker 2 gave no answer", "planned": "A", "found": "B", "topic": "orders",
    "policy": "compact", "target_offset": 9, "last_stable_offset": 8, "group_id": "billing",
    "committed_offset": 4, "records": 5, "who": "Group billing", "bytes_out": 10, "explained": 5,
    "brokers": "broker 3", "adding": "[4]", "removing": "[1]", "broker_id": 1, "log_dir": "/d2",
    "partitions": 12, "limit": 10, "data": "/data",
    "ends": "Leave it to its application",
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


@pytest.mark.parametrize(
    "name",
    [
        *("unread-by-group", "members-without-commits", "share-group"),
        *("no-committed-offset", "changelog-source"),
    ],
)
@pytest.mark.parametrize("group_id", [
    "billing", "my group", "$(touch PWNED)", "`touch PWNED`", 'a"; touch PWNED; "', "a\\", "x!y",
    "it's", "a=b", " edges ", "-rf", "line\nend; touch PWNED", "turn\u202eed", "bom\ufeff",
])  # fmt: skip
def test_the_offered_line_names_the_group_and_runs_nothing(
    name: str, group_id: str, tmp_path: Path
) -> None:
    """A shell gives the very group to the program, as it is printed, whatever its name holds."""
    lift = visible_cell(guard_texts.guard(name, **{**_FACTS, "group_id": group_id}).lift)
    offered = re.findall(r"--(waive|override) (.*?=WHY[\"'])", lift)
    assert [flag for flag, _ in offered] == ["waive", "override"][name != "unread-by-group" :]
    for flag, word in offered:
        shown = subprocess.run(
            ["bash", "-c", f"printf %s {word}"], cwd=tmp_path, capture_output=True, check=True
        )
        given = shown.stdout.decode()
        if flag == "waive":
            assert parse_waive(given, lambda: ()) == Waive(group_id, "WHY")
        else:
            assert parse_lift(given, lambda: ()) == Lift(name, "WHY", group_id)
    assert list(tmp_path.iterdir()) == []
