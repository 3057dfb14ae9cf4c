"""A policy's topics, and the group whose commits decide about each."""

from __future__ import annotations

import pytest

from dashboard.policies.matching import applications, lifted, owner_of
from tests.unit.policies.examples import policy

PRESET = policy('preset = "repartition"')


@pytest.mark.parametrize(
    ("topic", "owner"),
    [
        ("billing-KSTREAM-AGGREGATE-0000000003-repartition", "billing"),
        ("billing-v2-by-user-repartition", "billing-v2"),  # the longest one
        ("billing-v3-by-user-repartition", "billing"),
        ("billing-repartition", None),  # no name between application and suffix
        ("billing-v2-repartition", "billing"),
        ("shipping-by-user-repartition", None),
        ("billingx-by-user-repartition", None),
        ("-repartition", None),
    ],
)
def test_the_preset_finds_the_application_by_the_topics_name(topic: str, owner: str | None) -> None:
    assert owner_of(PRESET, topic, {"billing", "billing-v2", "other"}) == owner


def test_what_the_preset_lifts_counts_for_known_applications_alone() -> None:
    topic = "billing-by-user-repartition"
    own = {"readers-undeclared"}
    assert set(lifted(PRESET, topic, "billing", {"billing"}, ())) == own
    assert lifted(PRESET, topic, "billing", {"other"}, ()) == {}
    assert lifted(PRESET, topic, "billing-by", {"billing"}, ()) == {}, "its commits decide"
    assert set(lifted(PRESET, topic, None, {"billing"}, {"x", "billing"})) == own
    assert lifted(PRESET, topic, None, {"billing"}, {"x"}) == {}, "it reads other topics"
    assert lifted(PRESET, topic, None, {"by"}, {"by"}) == {}
    said = policy('preset = "repartition"\noverrides = {"readers-undeclared" = "I looked"}')
    assert set(lifted(said, topic, "billing", (), ())) == own


def test_an_application_id_may_end_with_a_dash() -> None:
    assert owner_of(PRESET, "a--x-repartition", {"a-"}) == "a-"


def test_the_preset_takes_repartition_topics_and_globs_or_a_regex_narrow_it() -> None:
    assert PRESET.matches("a-x-repartition")
    assert not PRESET.matches("a-x-changelog") and not PRESET.matches("repartition")
    narrow = policy('preset = "repartition"\ntopics = ["a-*", "b-*"]')
    assert narrow.matches("b-x-repartition")
    assert not narrow.matches("b-x") and not narrow.matches("c-x-repartition")
    by_regex = policy('preset = "repartition"\ntopics_regex = "a-.*"')
    assert by_regex.matches("a-x-repartition") and not by_regex.matches("ba-x-repartition")


def test_a_regex_must_match_the_whole_name() -> None:
    found = policy('topics_regex = "orders|orders\\\\.eu"')
    assert found.matches("orders.eu")
    assert not found.matches("orders.eux") and not found.matches("my-orders")


def test_globs_tell_case() -> None:
    assert policy('topics = ["Orders.?"]').matches("Orders.1")
    assert not policy('topics = ["Orders.?"]').matches("orders.1")


def test_topics_are_put_together_by_owner_those_without_one_last() -> None:
    topics = ["z-1-repartition", "b-2-repartition", "a-1-repartition", "b-1-repartition", "b-x"]
    found = applications(PRESET, topics, ["b", "a"])
    assert list(found.items()) == [
        ("a", ("a-1-repartition",)),
        ("b", ("b-1-repartition", "b-2-repartition")),
        (None, ("z-1-repartition",)),
    ]


def test_where_all_groups_count_all_topics_are_one_application() -> None:
    for text in ('topics = ["o*"]', 'topics = ["o*"]\ntarget = "keep:3d"'):
        assert applications(policy(text), ["o2", "o1", "x"], ["g"]) == {None: ("o1", "o2")}
    all_groups = policy('preset = "repartition"\ncommitted_by = "all"')
    assert applications(all_groups, ["g-1-repartition"], ["g"]) == {None: ("g-1-repartition",)}


def test_a_named_owner_counts_only_while_it_is_known() -> None:
    found = policy('topics = ["o*"]\ncommitted_by = "owner"\nowner = "g"')
    assert applications(found, ["o1"], ["g", "h"]) == {"g": ("o1",)}
    assert applications(found, ["o1"], ["h"]) == {None: ("o1",)}


def test_no_topics_are_no_application() -> None:
    assert applications(PRESET, ["x"], ["g"]) == {}
