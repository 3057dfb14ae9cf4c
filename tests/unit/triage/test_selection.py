"""The chosen set is safe first, small, and nothing in it can be spared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dashboard.domain.model import TopicPartition
from dashboard.triage.pieces import DECLARED, UNDECLARED, WAIVED, Here, Piece, total
from dashboard.triage.selection import Chosen, choose, sureness
from tests.support.examples import examples

MANY = 10_000


def key(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def piece(number: int, low: int, tier: int = DECLARED, more: int = 0) -> Piece:
    return Piece(key(number), tier, Here(low, low + more, low + 2 * more))


def numbers(chosen: tuple[Chosen, ...]) -> list[int]:
    return [c.key.partition for c in chosen]


@st.composite
def pieces(draw: st.DrawFn) -> list[Piece]:
    """Partitions with a piece of tier 1 or 2, one of tier 3, or both."""
    found = []
    for number in range(draw(st.integers(0, 7))):
        base = draw(st.sampled_from([DECLARED, UNDECLARED, None]))
        if base:
            found.append(piece(number, draw(st.integers(0, 9)), base, draw(st.integers(0, 3))))
        if base is None or draw(st.booleans()):
            found.append(piece(number, draw(st.integers(0, 9)), WAIVED, draw(st.integers(0, 3))))
    return found


def low(chosen: tuple[Chosen, ...]) -> int:
    return sum(c.here.low for c in chosen)


@examples(150)
@given(pieces(), st.integers(1, 40))
def test_without_any_chosen_partition_the_need_is_missed(found: list[Piece], need: int) -> None:
    chosen = choose(found, need, MANY)
    if low(chosen) >= need:
        assert all(low(chosen) - c.here.low < need for c in chosen)


@examples(150)
@given(pieces(), st.integers(1, 40))
def test_what_can_be_reached_is_reached_by_the_low_estimates(found: list[Piece], need: int) -> None:
    chosen = choose(found, need, MANY)
    if total(found).low >= need:
        assert low(chosen) >= need
    else:
        likely = {p.key for p in found if p.here.likely > 0}
        assert {c.key for c in chosen} == likely


@examples(150)
@given(pieces(), st.integers(1, 40))
def test_a_riskier_tier_is_touched_only_where_the_safer_ones_are_not_enough(
    found: list[Piece], need: int
) -> None:
    riskiest = max((c.tier for c in choose(found, need, MANY)), default=0)
    for tier in range(1, riskiest):
        assert total([p for p in found if p.tier <= tier]).low < need


@examples(100)
@given(st.lists(st.integers(1, 20), max_size=8), st.integers(1, 60))
def test_within_a_tier_no_smaller_number_of_partitions_is_enough(
    sizes: list[int], need: int
) -> None:
    chosen = choose([piece(n, size) for n, size in enumerate(sizes)], need, MANY)
    if sum(sizes) >= need:
        fewest = next(n for n in range(1, len(sizes) + 1) if sum(sorted(sizes)[-n:]) >= need)
        assert len(chosen) == fewest


def test_the_last_one_is_the_smallest_that_is_enough() -> None:
    assert numbers(choose([piece(0, 40), piece(1, 30), piece(2, 11)], 50, MANY)) == [0, 2]


def test_a_larger_risky_piece_drops_safe_ones_that_it_made_superfluous() -> None:
    found = [piece(0, 10), piece(1, 2), piece(2, 15, UNDECLARED)]
    assert numbers(choose(found, 24, MANY)) == [0, 2]


def test_a_gain_stands_on_the_piece_below_it() -> None:
    found = [piece(0, 5), piece(0, 7, WAIVED), piece(1, 3)]
    assert choose(found, 12, MANY) == (Chosen(key(0), WAIVED, Here(12, 12, 12)),)


def test_no_more_partitions_than_one_run_may_have() -> None:
    assert numbers(choose([piece(n, 10 - n) for n in range(5)], 100, 2)) == [0, 1]


def test_how_sure_a_sum_is() -> None:
    here = Here(10, 20, 30)
    assert [sureness(here, need) for need in (10, 20, 30, 31)] == [
        "sure", "likely", "possible", "short",
    ]  # fmt: skip
