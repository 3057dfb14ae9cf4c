"""Each bad input ends with its named error, in words and as JSON, and changes nothing on disk."""

from __future__ import annotations

from collections import Counter

import pytest
from _pytest.mark import ParameterSet

from tests.bad_inputs.calling import PASSING, Ending, call, differing, digests, error_of
from tests.bad_inputs.case import Case
from tests.bad_inputs.cases import KINDS, all_cases
from tests.bad_inputs.world import World

CASES = all_cases()
FIRST = 2  # of each kind of input and code in make test, all others in make test-further


def _by_level() -> list[ParameterSet]:
    seen: Counter[tuple[str, str]] = Counter()
    cases = []
    for case in CASES:
        kind = (case.name.partition(":")[0], case.code)
        seen[kind] += 1
        marks = [pytest.mark.further] if seen[kind] > FIRST else []
        cases.append(pytest.param(case, id=case.name, marks=marks))
    return cases


@pytest.mark.parametrize("case", _by_level())
def test_a_bad_input_is_named_and_changes_nothing(
    case: Case, world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if case.make is not None:
        case.make(monkeypatch)
    before = digests()
    told = call(case, world, capsys, as_json=True)
    error = error_of(told.out)
    assert (error["code"], told.exit_code) == (case.code, case.exit), error
    word = world.words(case.word)
    _check(word, told, error["message"], error["next"])
    read = call(case, world, capsys, as_json=False)
    assert read.exit_code == case.exit
    message, found, step = read.err.rpartition("error: ")[2].partition("\nnext: ")
    assert found
    _check(word, read, message, step)
    assert differing(before, digests(), (*PASSING, *case.may_make)) == ()


def _check(word: str, ending: Ending, message: str, step: str) -> None:
    assert word in message
    assert step.strip()
    assert "Traceback" not in ending.out + ending.err


def test_there_are_many_and_no_two_are_called_the_same() -> None:
    assert len(CASES) >= 300
    assert len({case.name for case in CASES}) == len(CASES)
    assert len(KINDS) >= 12
