"""A pattern's topics are those whose whole name RE2 matches, or all where nobody can tell."""

from __future__ import annotations

import time

import pytest

from dashboard.safety.readers import matching

TOPICS = ("Orders", "orders", "orders-eu", "xorders")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", {"orders"}),
        ("^orders", {"orders"}),
        ("^orders.*", {"orders", "orders-eu"}),
        ("^nobody|^orders-.*", {"orders-eu"}),
        ("(?i)orders", {"Orders", "orders"}),
        (r"\Qorders-eu\E", {"orders-eu"}),
        ("[[:lower:]]+", {"orders", "xorders"}),  # Python's re has another set in mind
        (r"\pL+", {"Orders", "orders", "xorders"}),
        ("", set()),
    ],
)
def test_a_pattern_matches_whole_names_as_re2_does(pattern: str, found: set[str]) -> None:
    assert matching([pattern], TOPICS) == found


@pytest.mark.parametrize("pattern", ["(", "[a", "a{3,1}", "(?!orders).*", r"(a)\1", r"x\Q"])
def test_a_pattern_that_cannot_be_compiled_matches_every_topic(pattern: str) -> None:
    assert matching([pattern], TOPICS) == set(TOPICS)


def test_one_of_several_patterns_is_enough_and_none_matches_nothing() -> None:
    assert matching(["nobody", "x.*"], TOPICS) == {"xorders"}
    assert matching([], TOPICS) == matching(["orders"], ()) == frozenset()


def test_a_pattern_that_backtracking_would_take_ages_for_is_matched_at_once() -> None:
    begun = time.monotonic()
    assert matching(["(.*a)*(.*a)*b"], ["a" * 249]) == frozenset()
    assert time.monotonic() - begun < 5
