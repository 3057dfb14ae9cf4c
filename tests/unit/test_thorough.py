"""What only `make test-all` runs is named by what there is, and nothing else is left out."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from tests.thorough import BESIDE, is_thorough, unknown

_ROOT = Path(__file__).parents[2]
_NAMES = sorted(chain.from_iterable(BESIDE.values()))


def test_what_is_named_is_there_and_nothing_twice() -> None:
    """Of variants a run of all tests sees to it itself."""
    text = {name: (_ROOT / name.partition("::")[0]).read_text() for name in _NAMES}

    functions = {name: name.partition("::")[2].partition("[")[0] for name in _NAMES}
    assert not [
        n for n, function in functions.items() if f"def {function or 'test_'}" not in text[n]
    ]
    assert len(_NAMES) == len({*_NAMES})


def test_a_name_that_no_test_bears_is_told() -> None:
    assert "tests/e2e/test_wheel.py" in unknown(["tests/e2e/test_server.py::test_it"])
    assert unknown(_NAMES) == []


def test_a_name_stands_for_its_variants_and_for_no_longer_name() -> None:
    name = "tests/spark/test_notebooks.py::test_it_runs_headless_in_a_kernel_of_its_own"
    assert is_thorough(f"{name}[reclaim]")
    assert not is_thorough(f"{name}_too")
    assert is_thorough("tests/e2e/test_wheel.py::test_the_installed_wheel_writes_a_report")
    assert not is_thorough("tests/brokers/test_purge.py::test_the_canary_goes_first")
