"""Every code that the sources give is reached by a bad input, or by a test that is named."""

from __future__ import annotations

from dashboard.purge.execute import stop_rules
from dashboard.purge.journal import wishes
from tests.bad_inputs import codes
from tests.bad_inputs.cases import all_cases
from tests.bad_inputs.unreached import UNREACHED

REACHED = {case.code for case in all_cases()}


def test_every_code_is_reached_or_has_a_reason() -> None:
    given = set(codes.given())
    assert given - REACHED - UNREACHED.keys() == set(), "no case has these"
    assert (REACHED | UNREACHED.keys()) - given == set(), "no source gives these"
    assert REACHED & UNREACHED.keys() == set(), "a case has these: they need no reason"


def test_the_tests_that_reach_the_others_name_them() -> None:
    for code, (why, file) in UNREACHED.items():
        assert why
        assert file is None or f'"{code}"' in (codes.ROOT / file).read_text(), f"{file}: {code}"


def test_a_code_has_one_exit_or_is_both_wrong_usage_and_a_refusal() -> None:
    many = {code: found for code, found in codes.exits().items() if len(found) > 1}
    assert many == {
        "CLUSTER_MISMATCH": {1, 3},
        "LOG_DIR_TWICE": {1, 3},
        "NOT_LIFTABLE": {1, 3},
    }


def test_the_codes_that_only_runs_end_with_are_explained() -> None:
    told = (codes.ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    for code in ("REFUSED", stop_rules.ERROR_RATE, stop_rules.ISR_SHRANK, wishes.SILENT):
        assert f"| `{code}` | " in told


def test_the_table_of_codes_is_that_of_the_sources() -> None:
    told = (codes.ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert codes.table() in told, "write it anew: python -m tests.bad_inputs.codes"
