"""Each test runs in one of make test, make test-further and the rest of make test-all."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from tests import levels

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
MARKERS = ("slow", "thorough", "further")


def test_levels_add_up_to_all_and_no_test_is_in_two() -> None:
    for marks in product((True, False), repeat=len(MARKERS)):
        borne = dict(zip(MARKERS, marks, strict=True))
        first, further = (_holds(_variable(name), borne) for name in ("FIRST", "FURTHER"))
        assert not (first and further), borne
        assert first == (not any(marks)), borne
        assert (first or further) == (not borne["slow"] and not borne["thorough"]), borne
        everything = re.findall(r'pytest -m ("[^"]+"|\w+) --hypothesis', MAKEFILE)
        assert [_holds(e.strip('"'), borne) for e in everything].count(True) == 1, borne


def test_each_level_is_run_and_continuous_integration_runs_two() -> None:
    run = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert [line for line in run if line.startswith("make ")] == ["make test", "make test-further"]
    levels = (("tests", "$(FIRST)", "$(FEWER)"), ("test-further", "$(FURTHER)", "$(SIDE_BY_SIDE)"))
    for target, level, processes in levels:
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
        assert recipe is not None
        assert f'$(PYTEST) -m "{level}" {processes}' in recipe[1]


def test_no_file_of_tests_is_passed_over() -> None:
    """Those that pytest collects are called test_*, and stand below its testpaths."""
    defines = re.compile(r"^(async )?def test_", re.MULTILINE)
    files = [
        p
        for p in ROOT.glob("*/**/*.py")
        if ".venv" not in p.parts and defines.search(p.read_text("utf-8"))
    ]
    assert files
    assert [p for p in files if p.relative_to(ROOT).parts[0] != "tests"] == []
    assert [p for p in files if not p.name.startswith("test_")] == []


@pytest.mark.further_but("kept")
@pytest.mark.parametrize("how", ["kept", "other"])
def test_of_a_test_that_names_variants_the_others_are_further(
    how: str, request: pytest.FixtureRequest
) -> None:
    assert levels.is_further(request.node) == (how == "other")
    borne = request.node.get_closest_marker("further") is not None
    assert borne == (how == "other")


def test_variants_that_are_named_are_there(pytestconfig: pytest.Config) -> None:
    """Told of a run of all tests alone: others see some variants."""
    assert pytestconfig.stash.get(levels.UNBORNE, []) == []


def test_a_named_variant_that_no_test_bears_is_told(request: pytest.FixtureRequest) -> None:
    request.node.add_marker(pytest.mark.further_but("gone"))

    assert levels.unborne([request.node]) == [f"{request.node.nodeid}[gone]"]


def _variable(name: str) -> str:
    found = re.search(rf"^{name} := (.+)$", MAKEFILE, re.MULTILINE)
    assert found is not None
    return found[1]


def _holds(expression: str, borne: dict[str, bool]) -> bool:
    return Expression.compile(expression).evaluate(lambda name, **_: borne[name])
