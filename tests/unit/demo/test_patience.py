"""The demo's patience with parts that end."""

from __future__ import annotations

from dashboard.demo.supervisor import MOST, WITHIN_SECONDS, Patience


def test_a_part_that_ends_again_and_again_is_given_up() -> None:
    patience = Patience()
    assert [patience.lasts("watch", float(i)) for i in range(MOST + 1)] == [True] * MOST + [False]


def test_ends_that_lie_apart_are_borne_for_as_long_as_the_demo_runs() -> None:
    patience = Patience()
    apart = WITHIN_SECONDS / (MOST - 1)
    assert all(patience.lasts("watch", i * apart) for i in range(100))


def test_parts_are_counted_apart() -> None:
    patience = Patience()
    assert all(patience.lasts(f"part {i}", 0.0) for i in range(2 * MOST))
