"""The section [people]: what it says, and each mistake by name."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import SettingsError
from dashboard.settings.people import PeopleSettings
from dashboard.settings.settings import load


def section(folder: Path, text: str) -> PeopleSettings | None:
    path = folder / "lowwater.toml"
    path.write_text(text)
    return load(path, {}).people


def test_without_the_section_there_are_no_roles(tmp_path: Path) -> None:
    assert section(tmp_path, "") is None
    assert section(tmp_path, "[people]") == PeopleSettings()


def test_every_key_is_read(tmp_path: Path) -> None:
    found = section(
        tmp_path,
        """
        [people]
        viewers = ["*"]
        operators = [" bob@example.org "]
        approvers = []
        name_claim = "preferred_username"
        role_claim = "groups"
        operator_values = ["kafka-operators"]
        approver_values = ["kafka-admins"]
        second_person = true
        approval_expires_after = "10m"
        sign_in_lasts = "8h"
        oidc_secrets = "/etc/lowwater/oidc.toml"
        """,
    )
    assert found == PeopleSettings(
        viewers=("*",),
        operators=("bob@example.org",),
        name_claim="preferred_username",
        role_claim="groups",
        operator_values=("kafka-operators",),
        approver_values=("kafka-admins",),
        second_person=True,
        approval_expires_after=timedelta(minutes=10),
        sign_in_lasts=timedelta(hours=8),
        oidc_secrets=Path("/etc/lowwater/oidc.toml"),
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("people = 3", "[people]"),
        ('[people]\noperator = ["bob"]', "Did you mean 'operators'"),
        ('[people]\noperators = "bob"', "operators"),
        ('[people]\noperators = [""]', "operators"),
        ('[people]\noperators = ["*"]', "operators"),
        ('[people]\napprovers = ["ann", "*"]', "approvers"),
        ('[people]\nname_claim = ""', "name_claim"),
        ('[people]\nrole_claim = "groups"\noidc_secrets = "/x"', "operator_values"),
        ('[people]\noperator_values = ["x"]\noidc_secrets = "/x"', "role_claim"),
        ('[people]\nrole_claim = "groups"\noperator_values = ["x"]', "oidc_secrets"),
        ("[people]\nsecond_person = true", "second_person"),
        ('[people]\nsecond_person = "maybe"', "second_person"),
        ('[people]\napproval_expires_after = "0s"', "approval_expires_after"),
        ('[people]\nsign_in_lasts = "a day"', "sign_in_lasts"),
        ("[people]\noidc_secrets = 3", "oidc_secrets"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(SettingsError) as refused:
        section(tmp_path, text)
    assert named in f"{refused.value.message} {refused.value.next_step}"
