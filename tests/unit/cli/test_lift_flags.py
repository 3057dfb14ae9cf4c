"""Where the group ends in what is typed: in its quotes, at the one `=`, or where it is known."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

from dashboard.cli.purge.lift_flags import known_groups, parse_lift, parse_waive
from dashboard.core.errors import UsageError
from dashboard.purge.plan.guards import Lift, Waive
from dashboard.settings.settings import Settings
from tests.support import sample_store
from tests.support.sample_topics import GROUPS


def unasked() -> frozenset[str]:
    raise AssertionError("what is not in doubt needs no look into the data folder")


@pytest.mark.parametrize(
    ("text", "group_id", "reason"),
    [
        ("old=gone since May", "old", "gone since May"),
        (" old= gone ", "old", "gone"),
        ('"a=b"=why', "a=b", "why"),
        ('"a=b" = x=y', "a=b", "x=y"),
        (r'"say \"hi\"\n=x"=why', 'say "hi"\n=x', "why"),
        ('" padded "=why', " padded ", "why"),
        ("a,b=why", "a,b", "why"),
    ],
)
def test_a_text_without_doubt(text: str, group_id: str, reason: str) -> None:
    assert parse_waive(text, unasked) == Waive(group_id, reason)
    assert parse_lift(f"unread-by-group:{text}", unasked) == Lift(
        "unread-by-group", reason, group_id
    )


@pytest.mark.parametrize(
    ("known", "group_id", "reason"),
    [({"a=b", "c"}, "a=b", "why=not"), ({"a"}, "a", "b=why=not"), ({"a=b=why"}, "a=b=why", "not")],
)
def test_of_several_places_the_known_group_decides(
    known: set[str], group_id: str, reason: str
) -> None:
    assert parse_waive("a=b=why=not", lambda: known) == Waive(group_id, reason)


@pytest.mark.parametrize(
    ("known", "group_id"), [(set(), "etl"), ({"etl"}, "etl"), ({"etl "}, "etl "), ({"b"}, "etl")]
)
def test_a_space_before_the_sign_belongs_to_a_group_whose_name_ends_with_one(
    known: set[str], group_id: str
) -> None:
    assert parse_waive("etl =dead", lambda: known) == Waive(group_id, "dead")


def test_groups_that_differ_by_a_space_at_the_end_are_told_apart() -> None:
    with pytest.raises(UsageError) as refused:
        parse_waive("etl =dead", lambda: {"etl", "etl "})
    assert refused.value.code == "GROUP_AMBIGUOUS"


@pytest.mark.parametrize("known", [{"a", "a=b"}, set(), {"b"}])
def test_doubt_is_refused_and_names_the_choices(known: set[str]) -> None:
    for parse in (parse_waive, lambda t, k: parse_lift(f"unread-by-group:{t}", k)):
        with pytest.raises(UsageError) as refused:
            parse("a=b=why", lambda: known)
        assert refused.value.code == "GROUP_AMBIGUOUS"
        assert """the group "a" or "a=b\"""" in refused.value.message
        assert """'"a=b"=why'""" in refused.value.next_step


def test_a_lift_of_every_group_keeps_its_reason_whole() -> None:
    assert parse_lift("over-limit=half=of:it", unasked) == Lift("over-limit", "half=of:it")


@pytest.mark.parametrize("text", ["g", "g=", "=why", " = ", '"g', '"g"', '"g"why', '"g"=', '""=w'])
def test_a_pair_is_needed(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_waive(text, frozenset)
    assert refused.value.code == "WAIVER_INVALID"
    with pytest.raises(UsageError) as refused:
        parse_lift(f"unread-by-group:{text}", frozenset)
    assert refused.value.code == "OVERRIDE_INVALID"


@pytest.mark.parametrize("text", ["over-limit", "over-limit=", "all=why", "", ":g=why"])
def test_a_lift_names_a_guard_and_a_reason(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_lift(text, frozenset)
    assert refused.value.code == "OVERRIDE_INVALID"


def test_known_groups_are_those_of_the_newest_snapshot_and_analysis(tmp_path: Path) -> None:
    sample_store.write(tmp_path)
    read = known_groups(Namespace(cluster=None), Settings(data=str(tmp_path)))
    assert {"billing-replay", *GROUPS} <= set(read())


def test_no_data_folder_knows_no_group(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path / "none"))
    assert known_groups(Namespace(cluster=None), settings)() == frozenset()
