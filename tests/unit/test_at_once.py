"""Reads of fakes in the test's own thread are still what they are in others."""

from __future__ import annotations

import threading

import pytest

from tests.support.at_once import READERS, AtOnce


def test_a_read_is_over_when_it_was_asked_for_and_its_error_is_told_where_it_is_wanted() -> None:
    with AtOnce(4, thread_name_prefix="read-back") as pool:
        where = pool.submit(threading.current_thread)
        failed = pool.submit(int, "x", base=10)
        with pytest.raises(ValueError, match="invalid literal"):
            failed.result()
        assert list(pool.map(len, ["a", "bc"])) == [1, 2]
    assert where.result() is threading.current_thread()


@pytest.mark.parametrize("module", READERS, ids=lambda module: str(module.__name__))
def test_unit_tests_read_by_it(module: object) -> None:
    assert vars(module)["ThreadPoolExecutor"] is AtOnce
