"""Roles: who has which, by name or by claims, and what `require` says to those who may not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import LowwaterError, RefusedError
from dashboard.people import people
from dashboard.people.people import Actor, actor_of, require
from dashboard.settings.people import PeopleSettings
from dashboard.settings.settings import Settings, load

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LISTS = PeopleSettings(
    viewers=("*",), operators=("bob@example.org",), approvers=("Ann@Example.org",)
)
GROUPS = replace(
    LISTS,
    role_claim="groups",
    operator_values=("kafka-operators",),
    approver_values=("kafka-admins",),
    oidc_secrets=Path("/etc/lowwater/oidc.toml"),
)


def claims(name: str = "eve@example.org", **change: Any) -> dict[str, Any]:
    """What a provider signed an hour ago."""
    issued = int((NOW - timedelta(hours=1)).timestamp())
    return {
        "is_logged_in": True, "email": name, "email_verified": True, "iat": issued, **change
    }  # fmt: skip


def role(section: PeopleSettings, **change: Any) -> str | None:
    return actor_of(Settings(people=section), claims(**change), NOW).role


def test_without_people_the_local_operator_may_do_everything() -> None:
    found = actor_of(Settings(operator="ada"), None)
    assert found == Actor("ada", "approver", "local")
    assert require(Settings(), "whoever was typed", "approver", "purge") == "whoever was typed"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("eve@example.org", "viewer"),
        ("bob@example.org", "operator"),
        ("BOB@example.org", "operator"),  # addresses have no case
        ("ann@example.org", "approver"),
        ("bob@example.org.evil.example", "viewer"),
        ("\u212aob@example.org", "viewer"),  # a sign that lower() makes an ASCII letter
    ],
)
def test_roles_by_name(name: str, expected: str) -> None:
    assert role(LISTS, name=name) == expected


def test_a_sign_that_folds_to_ascii_is_nobodys_letter() -> None:
    section = PeopleSettings(approvers=("kim@example.org",))
    assert role(section, name="\u212aim@example.org") is None


def test_other_claims_than_addresses_are_compared_exactly() -> None:
    section = PeopleSettings(name_claim="sub", approvers=("Abc",))
    assert role(section, sub="Abc") == "approver"
    assert role(section, sub="abc") is None
    assert role(section, sub="*") is None


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (["kafka-operators"], "operator"),
        ("kafka-admins", "approver"),
        (["kafka-operators", "kafka-admins"], "approver"),
        (["KAFKA-ADMINS"], "viewer"),
        ([], "viewer"),
        ({"kafka-admins": True}, "viewer"),
        ([["kafka-admins"], 7], "viewer"),
    ],
)
def test_roles_by_claim(groups: object, expected: str) -> None:
    assert role(GROUPS, groups=groups) == expected


def test_names_and_claims_add_up_to_the_higher_role() -> None:
    assert role(GROUPS, name="ann@example.org", groups=["kafka-operators"]) == "approver"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"is_logged_in": False}, "NOT_SIGNED_IN"),
        ({"is_logged_in": "true"}, "NOT_SIGNED_IN"),
        ({"email_verified": False}, "NAME_NOT_VERIFIED"),
        ({"email_verified": "false"}, "NAME_NOT_VERIFIED"),
        ({"email_verified": None}, "NAME_NOT_VERIFIED"),
        ({"email": ""}, "NAME_MISSING"),
        ({"email": ["ann@example.org"]}, "NAME_MISSING"),
        ({"email": "ann@example.org\n"}, "NAME_MISSING"),
        ({"email": "\u202eann@example.org"}, "NAME_MISSING"),
        ({"email": "a" * 255}, "NAME_MISSING"),
        ({"iat": int((NOW - timedelta(hours=12)).timestamp())}, "SIGN_IN_EXPIRED"),
        ({"iat": int((NOW + timedelta(hours=1)).timestamp())}, "SIGN_IN_EXPIRED"),
        ({"iat": "yesterday"}, "SIGN_IN_EXPIRED"),
        ({"iat": True}, "SIGN_IN_EXPIRED"),
        ({"iat": 1e300}, "SIGN_IN_EXPIRED"),
    ],
)
def test_claims_that_name_nobody(change: dict[str, Any], code: str) -> None:
    with pytest.raises(RefusedError) as refused:
        actor_of(Settings(people=LISTS), claims("ann@example.org") | change, NOW)
    assert (refused.value.code, refused.value.exit_code) == (code, 3)
    with pytest.raises(RefusedError):
        actor_of(Settings(people=LISTS), {}, NOW)


def test_a_role_too_low_names_who_what_is_needed_and_whom_to_ask() -> None:
    settings = Settings(people=LISTS)
    eve = actor_of(settings, claims(), NOW)
    with pytest.raises(RefusedError) as refused:
        require(settings, eve, "operator", "purge", NOW)
    assert (refused.value.code, refused.value.exit_code) == ("ROLE_TOO_LOW", 3)
    said = "eve@example.org is a viewer and may not purge: that takes an operator"
    assert refused.value.message == said
    assert "Ann@Example.org" in refused.value.next_step


def test_a_plain_name_has_no_role_where_roles_are() -> None:
    with pytest.raises(RefusedError) as refused:
        require(Settings(people=LISTS), "ann@example.org", "viewer", "look")
    assert refused.value.code == "ROLE_TOO_LOW"


def test_a_role_that_its_holder_claims_to_have_is_looked_up_again() -> None:
    settings = Settings(people=LISTS)
    liar = Actor("eve@example.org", "approver", "oidc", claims())
    with pytest.raises(RefusedError):
        require(settings, liar, "operator", "purge", NOW)
    with pytest.raises(RefusedError):
        require(settings, Actor("eve", "approver", "local"), "operator", "purge", NOW)
    renamed = Actor("ann@example.org", "approver", "oidc", claims("bob@example.org"))
    assert require(settings, renamed, "operator", "purge", NOW) == "bob@example.org"


def people_file(folder: Path, operators: str) -> Path:
    path = folder / "lowwater.toml"
    path.write_text(f'operator = "bob"\n[people]\nviewers = ["*"]\noperators = [{operators}]\n')
    return path


def test_a_role_taken_away_in_the_file_is_gone_at_once(tmp_path: Path) -> None:
    settings = load(people_file(tmp_path, '"bob"'), {})
    bob = actor_of(settings, None)
    assert require(settings, bob, "operator", "purge") == "bob"

    people_file(tmp_path, "")
    with pytest.raises(RefusedError) as refused:
        require(settings, bob, "operator", "purge")
    assert refused.value.code == "ROLE_TOO_LOW"


@pytest.mark.parametrize("text", ["", "[people", "[people]\noperators = 'bob'"])
def test_a_file_that_no_longer_tells_roles_lets_nobody_through(tmp_path: Path, text: str) -> None:
    path = people_file(tmp_path, '"bob"')
    settings = load(path, {})
    path.write_text(text)
    with pytest.raises(LowwaterError) as refused:
        require(settings, actor_of(replace(settings, people=None), None), "operator", "purge")
    assert refused.value.code in ("PEOPLE_GONE", "SETTINGS_INVALID")
    path.unlink()
    with pytest.raises(LowwaterError):
        actor_of(settings, None)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ann@example.org", "Ann@example.org ", True),
        ("ann@example.org", "\uff41nn@example.org", True),
        ("ann@example.org", "bob@example.org", False),
    ],
)
def test_in_doubt_two_names_are_one_person(one: str, other: str, same: bool) -> None:
    assert people.same_person(one, other) is same


@pytest.mark.parametrize(
    ("second", "expected"), [(None, "operator"), (False, "operator"), (True, "approver")]
)
def test_what_no_second_person_is_asked_about_takes_an_approver(
    second: bool | None, expected: str
) -> None:
    section = None if second is None else replace(LISTS, second_person=second)
    assert people.deciding_role(Settings(people=section)) == expected
