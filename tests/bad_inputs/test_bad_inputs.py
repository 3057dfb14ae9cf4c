"""Each bad input ends with its named error, in words and as JSON, and changes nothing on disk."""

from __future__ import annotations

import pytest

from tests.bad_inputs.calling import PASSING, Ending, call, differing, digests, error_of
from tests.bad_inputs.case import Case
from tests.bad_inputs.cases import KINDS, all_cases
from tests.bad_inputs.world import World

CASES = all_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
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
