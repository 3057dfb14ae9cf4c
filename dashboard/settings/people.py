"""The settings section [people]: who may look, purge and approve, and how they sign in."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from dashboard.core.errors import SettingsError
from dashboard.settings.settled_file import read_settled
from dashboard.settings.values import path, section

EVERYBODY = "*"
_TEXTS = ("name_claim", "role_claim", "oidc_secrets")
_EXAMPLES = {
    "viewers": '["*"]',
    "operators": '["bob@example.org"]',
    "approvers": '["ann@example.org"]',
    "operator_values": '["kafka-operators"]',
    "approver_values": '["kafka-admins"]',
}


@dataclass(frozen=True, slots=True)
class PeopleSettings:
    """Roles by name, or by values of a claim; the highest one that fits counts.

    `oidc_secrets` is the path of Streamlit's [auth] section: with it everybody signs in. What it
    holds is never kept here. `sign_in_lasts` is how old a sign-in may be when something is queued.
    """

    viewers: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    name_claim: str = "email"
    role_claim: str | None = None
    operator_values: tuple[str, ...] = ()
    approver_values: tuple[str, ...] = ()
    second_person: bool = False
    approval_expires_after: timedelta = timedelta(minutes=30)
    sign_in_lasts: timedelta = timedelta(hours=12)
    oidc_secrets: Path | None = None


def people_settings(table: Any, where: str) -> PeopleSettings:
    """The section out of a settings file. Raises SettingsError naming the key."""
    own = section(table, "people", PeopleSettings, where)
    lists = {
        key: tuple(name.strip() for name in own.texts(key, example))
        for key, example in _EXAMPLES.items()
        if own.get(key, []) != []
    }
    named: dict[str, Any] = {key: own.filled(key) for key in _TEXTS if key in own}
    if "oidc_secrets" in named:
        named["oidc_secrets"] = path(named["oidc_secrets"], "oidc_secrets", own.where)
    found = PeopleSettings(**{**own.values(PeopleSettings), **lists, **named})
    _check(found, own.where)
    return found


def read_again(source: Path) -> PeopleSettings | None:
    """The section as the file has it now: a role that was taken away there is gone at once. None:
    it has none. Raises SettingsError.
    """
    try:
        table = tomllib.loads(read_settled(source))
    except (OSError, ValueError, RecursionError) as error:  # no TOML, or brackets without end
        raise SettingsError(
            f"the settings file {source} cannot be read, so nobody's role is known: {error}",
            "Correct it; until then nothing is queued.",
        ) from error
    if "people" not in table:
        return None
    return people_settings(table["people"], str(source))


def gone(source: Path) -> SettingsError:
    """PEOPLE_GONE: a process that began with the section goes on for nobody without it."""
    return SettingsError(
        f"the settings file {source} had a section [people] and has it no more",
        "Put it back; or start the dashboard again, if everybody may do everything from now.",
        code="PEOPLE_GONE",
    )


def same_sign_in(source: Path, began: PeopleSettings | None, found: PeopleSettings | None) -> None:
    """Raise SETTINGS_MOVED where people would sign in by other means than a process began with.

    The server reads `oidc_secrets` as it starts: without them whoever connects would be taken for
    the person at this host from one moment to the next. Where there was no section, none counts.
    """
    if began is not None and found is not None and began.oidc_secrets != found.oidc_secrets:
        raise SettingsError(
            f"oidc_secrets of {source} is not what it was when this process began",
            "Restart it; or take the change back. Until then nobody is let through.",
            code="SETTINGS_MOVED",
        )


def _check(found: PeopleSettings, place: str) -> None:
    for key in ("operators", "approvers", "operator_values", "approver_values"):
        if EVERYBODY in getattr(found, key):
            raise SettingsError(
                f"{place}: {key} holds '{EVERYBODY}'",
                f"Name them: only viewers may be '{EVERYBODY}', everybody who signs in.",
            )
    values = found.operator_values or found.approver_values
    if bool(found.role_claim) != bool(values):
        raise SettingsError(
            f"{place}: role_claim and operator_values or approver_values belong together",
            'Write role_claim = "groups" and the values of it that make an operator or approver.',
        )
    if found.role_claim and found.oidc_secrets is None:
        raise SettingsError(
            f"{place}: role_claim without oidc_secrets: nobody signs in, so there are no claims",
            "Name the file with Streamlit's [auth] section, or give roles by name.",
        )
    if found.second_person and not (found.approvers or found.approver_values):
        raise SettingsError(
            f"{place}: second_person, but nobody approves",
            "Name approvers, or the approver_values of role_claim.",
        )
