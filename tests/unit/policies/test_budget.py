"""A policy's budgets by the hour: what fits, and why the rest does not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dashboard.policies.service.cycle import within
from dashboard.purge.journal.policies import Use
from tests.unit.policies.examples import policy, t

NOTHING = Use(0, 0)
KIB = 'most_bytes_per_hour = "1KiB"'


def test_without_budgets_all_fit_measured_or_not() -> None:
    kept, left_out, reason = within(policy(), [(t(0), 2**60), (t(1), None)], Use(10**6, 2**60))
    assert (kept, left_out, reason) == ((t(0), t(1)), {}, "")


def test_what_was_started_in_the_hour_counts() -> None:
    found = within(policy("most_partitions_per_hour = 3"), [(t(0), 1), (t(1), None)], Use(2, 0))
    assert found.kept == (t(0),)
    assert found.left_out == {t(1): "most_partitions_per_hour, 3, is used up"}
    assert found.reason == "most_partitions_per_hour, 3, is used up"


def test_bytes_may_be_used_up_to_the_last_one() -> None:
    found = within(policy(KIB), [(t(0), 1000), (t(1), 1)], Use(5, 24))
    assert found.kept == (t(0),)
    assert found.left_out == {t(1): "most_bytes_per_hour, 1.0 KiB, is used up"}


def test_bytes_that_are_not_measured_do_not_fit_into_a_budget_of_bytes() -> None:
    found = within(policy(KIB), [(t(0), None), (t(1), 5)], NOTHING)
    assert found.kept == (t(1),)
    assert found.left_out[t(0)].startswith("not measured")


def test_bytes_of_the_hour_that_were_not_measured_leave_nothing_that_is_known() -> None:
    limited = policy(f"{KIB}\nmost_partitions_per_hour = 5")
    found = within(limited, [(t(0), 1)], Use(3, 0, 2))
    assert found.kept == ()
    assert found.reason.startswith("bytes of 2 of the partitions that it purged in the last hour")
    only_partitions = policy("most_partitions_per_hour = 5")
    assert within(only_partitions, [(t(0), None)], Use(3, 0, 2)).kept == (t(0),)


def test_a_smaller_one_does_not_take_the_place_of_the_one_that_waits_longest() -> None:
    found = within(policy(KIB), [(t(0), 600), (t(1), 1)], Use(1, 600))
    assert found.kept == ()


def test_one_larger_than_an_hours_bytes_says_so_and_holds_up_nobody() -> None:
    found = within(policy(KIB), [(t(0), 1025), (t(1), 1024)], NOTHING)
    assert found.kept == (t(1),)
    assert "larger than a whole hour's" in found.left_out[t(0)]


def test_each_reason_stands_once() -> None:
    rows = [(t(0), None), (t(1), None), (t(2), 1024), (t(3), 1), (t(4), 1)]
    found = within(policy(KIB), rows, NOTHING)
    assert found.kept == (t(2),)
    assert found.reason.count("not measured") == found.reason.count("is used up") == 1


@given(
    st.lists(st.none() | st.integers(0, 1500), max_size=12),
    st.integers(0, 5),
    st.integers(0, 1024),
)
def test_neither_budget_is_ever_exceeded_and_nobody_is_lost(
    sizes: list[int | None], partitions: int, used: int
) -> None:
    rows = [(t(n), size) for n, size in enumerate(sizes)]
    found = within(policy(f"{KIB}\nmost_partitions_per_hour = 5"), rows, Use(partitions, used))
    by_partition = dict(rows)
    assert len(found.kept) + partitions <= 5
    assert sum(by_partition[p] or 0 for p in found.kept) + used <= 1024
    assert {*found.kept, *found.left_out} == by_partition.keys()
    assert len(found.kept) + len(found.left_out) == len(rows)
