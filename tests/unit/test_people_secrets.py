"""The file that people sign in by: each fault is named, and nothing of what it holds is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.cli.machine import dashboard
from dashboard.cli.machine.dashboard import Listening
from dashboard.core.errors import LowwaterError
from dashboard.people.people import check
from dashboard.settings.people import PeopleSettings
from dashboard.settings.settings import Settings

ORIGIN = "https://lowwater.example.org"
SECRET = "xxSECRETxx-0123456789-0123456789-0123456789"
GOOD = f"""[auth]
redirect_uri = "{ORIGIN}/oauth2callback"
cookie_secret = "{SECRET}"
client_id = "lowwater"
client_secret = "{SECRET}"
server_metadata_url = "https://id.example.org/.well-known/openid-configuration"
"""


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "oidc.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_good_file_is_taken(tmp_path: Path) -> None:
    check(written(tmp_path, GOOD), ORIGIN, 8501)
    check(written(tmp_path, GOOD, 0o640), ORIGIN, 8501)  # a group's right to read is its owner's
    port = GOOD.replace(ORIGIN, "http://127.0.0.1:{port}")
    check(written(tmp_path, port), "http://127.0.0.1:9000", 9000)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (GOOD, f'[auth\n"{SECRET}"', "no TOML"),
        (GOOD, f'a = "{SECRET}"', "[auth]"),
        ("[auth]", f'token = "{SECRET}"\n[auth]', "[auth]"),
        ("[auth]", "[auth.google]", "'google'"),
        ("client_secret", "client_secrets", "Did you mean 'client_secret'"),
        (f'client_secret = "{SECRET}"', "", "client_secret"),
        (f'client_secret = "{SECRET}"', 'client_secret = " "', "client_secret"),
        (f'client_secret = "{SECRET}"', "client_secret = 3", "client_secret"),
        (f'cookie_secret = "{SECRET}"', 'cookie_secret = "xxSECRETxx-short"', "cookie_secret"),
        ("https://id", "http://id", "server_metadata_url"),
        ("https://id", "ftp://id", "server_metadata_url"),
        ("https://id", "https://[id", "server_metadata_url"),
        (ORIGIN, "https://lowwater.example.com", "redirect_uri"),
        (ORIGIN, ORIGIN.upper(), "redirect_uri"),
        ("oauth2callback", "callback", "redirect_uri"),
        ("[auth]", '[auth]\nclient_kwargs = "x"', "client_kwargs"),
        ("[auth]", "[auth]\nexpose_tokens = 'access'", "expose_tokens"),
    ],
)
def test_each_fault_is_named_and_no_secret_is(
    tmp_path: Path, old: str, new: str, named: str
) -> None:
    assert old in GOOD
    with pytest.raises(LowwaterError) as refused:
        check(written(tmp_path, GOOD.replace(old, new)), ORIGIN, 8501)
    said = f"{refused.value.message} {refused.value.next_step}"
    assert named in said
    assert "xxSECRETxx" not in said
    assert refused.value.__cause__ is None
    assert refused.value.exit_code == 1


@pytest.mark.parametrize("mode", [0o604, 0o606, 0o660, 0o644])
def test_a_file_that_others_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(LowwaterError) as refused:
        check(written(tmp_path, GOOD, mode), ORIGIN, 8501)
    assert refused.value.code == "OIDC_SECRETS_INVALID"
    assert "chmod 600" in refused.value.next_step


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LowwaterError) as refused:
        check(tmp_path / "none.toml", ORIGIN, 8501)
    assert "none.toml" in refused.value.message


def test_the_pages_are_given_the_path_alone(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    settings = Settings(people=PeopleSettings(oidc_secrets=path))
    place = Listening("127.0.0.1", 8501, ORIGIN)
    secrets = dashboard._secrets(settings, place)
    words = dashboard.command(place, None, secrets)
    assert f"--secrets.files={path}" in words
    assert not [word for word in words if "xxSECRETxx" in word]
    assert dashboard._secrets(Settings(), place) is None
