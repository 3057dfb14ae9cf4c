"""What is asked for reaches the plan part by part, whatever characters a group's id has."""

from __future__ import annotations

import pytest

from dashboard.core.errors import UsageError
from dashboard.purge.plan.guards import Lift, Override, Waive, Waiver
from dashboard.safety.guard_texts import LIFTABLE_GUARDS, NEVER_LIFTABLE
from tests.unit.purge.facts_of import NOW


@pytest.mark.parametrize("group_id", ["a=b", "a,b", " a ", '"a"', "a:b=c"])
def test_a_group_is_waived_and_lifted_as_it_is_called(group_id: str) -> None:
    assert Waive(group_id, " gone ").waiver("ann", NOW) == Waiver(group_id, "gone", "ann", NOW)
    lifted = Lift("unread-by-group", "read", group_id).override("ann", NOW, LIFTABLE_GUARDS)
    assert lifted == Override("unread-by-group", group_id, "read", "ann", NOW)


@pytest.mark.parametrize("name", NEVER_LIFTABLE)
def test_what_is_never_liftable_is_refused_whatever_the_settings_say(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        Lift(name, "why").override("ann", NOW, (name,))
    assert refused.value.code == "NOT_LIFTABLE"


def test_settings_may_forbid_a_liftable_guard() -> None:
    with pytest.raises(UsageError) as refused:
        Lift("over-limit", "why").override("ann", NOW, ("unread-by-group",))
    assert refused.value.code == "NOT_LIFTABLE"


@pytest.mark.parametrize(
    ("named", "group_id"),
    [("unread-by-group", None), ("unread-by-group:g", "g"), ("unread-by-group:a:b", "a:b")],
)
def test_a_guard_is_named_alone_or_with_a_group(named: str, group_id: str | None) -> None:
    assert Lift.named(named, "why") == Lift("unread-by-group", "why", group_id)


def test_who_names_no_group_behind_the_colon_lifts_nothing() -> None:
    """A variable that is empty by mistake must not mean every group."""
    with pytest.raises(UsageError) as refused:
        Lift.named("unread-by-group:", "the test group may lose them")
    assert refused.value.code == "OVERRIDE_INVALID"
