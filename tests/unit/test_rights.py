"""docs/acls.md is the table of rights, and its lines give just those rights."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dashboard.domain import rights
from dashboard.domain.rights import RIGHTS, Right

PAGE = (Path(__file__).parents[2] / "docs" / "acls.md").read_text()


def rows_below(heading: str) -> list[list[str]]:
    """The cells of the first table after a heading, without its head."""
    lines = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0].splitlines()
    table = [line for line in lines if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_the_page_has_each_right_with_what_it_allows_and_what_its_absence_costs() -> None:
    patterns = {"*": "`*`", "kafka-cluster": "`kafka-cluster`", "": "chosen names"}
    assert rows_below("Rights") == [
        [r.operation, r.resource, patterns[r.pattern], r.role, r.allows, r.lost] for r in RIGHTS
    ]


def test_the_page_has_each_feature_with_the_rights_that_it_needs() -> None:
    assert rows_below("Features") == [
        [f.name, ", ".join(right.name for right in f.needs), f.without] for f in rights.FEATURES
    ]


@pytest.mark.parametrize("role", [rights.DASHBOARD, rights.OPERATOR])
def test_the_page_has_the_lines_to_paste_for_each_role(role: str) -> None:
    (block,) = re.findall(rf"<!-- {role} -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
    wanted = rights.commands(role, "User:lowwater")
    assert block.splitlines() == list(wanted)


def given_by(line: str) -> set[tuple[str, str]]:
    words = shlex.split(line)
    operations = {words[i + 1] for i, word in enumerate(words) if word == "--operation"}
    (resource,) = {"--topic", "--group", "--cluster"} & set(words)
    return {(operation, resource[2:].capitalize()) for operation in operations}


def test_the_lines_of_both_roles_give_every_right_and_no_other() -> None:
    lines = [*rights.commands(rights.DASHBOARD), *rights.commands(rights.OPERATOR)]
    given = [pair for line in lines for pair in sorted(given_by(line))]
    assert sorted(given) == sorted((r.operation, r.resource) for r in RIGHTS)


@pytest.mark.parametrize("right", RIGHTS, ids=lambda right: right.name)
def test_a_single_rights_line_gives_that_right(right: Right) -> None:
    line = rights.command(right, "User:CN=o'brien,OU=ops")
    assert given_by(line) == {(right.operation, right.resource)}
    assert "User:CN=o'brien,OU=ops" in shlex.split(line)


def test_only_an_operator_may_change_anything() -> None:
    changing = {r for r in RIGHTS if r.operation not in ("Describe", "DescribeConfigs")}
    assert {r.role for r in changing} == {rights.OPERATOR}
    needed = {right for feature in rights.FEATURES for right in feature.needs}
    assert needed == set(RIGHTS)
