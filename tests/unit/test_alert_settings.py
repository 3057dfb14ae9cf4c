"""Alerts of the settings: which, and where to; the address is a secret wherever text is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import SettingsError
from dashboard.settings import settings as settings_module
from dashboard.settings.sections import ALERT_NAMES, AlertSettings, alert_settings
from dashboard.settings.settings import load

SECRET = "hooks.example.com/services/T0/s3cret"


def test_without_the_section_nothing_is_sent() -> None:
    found = alert_settings({}, "here")
    assert found == AlertSettings()
    assert (found.address(), found.on, found.disk_above) == (None, (), None)


def test_the_address_is_in_no_repr(tmp_path: Path) -> None:
    path = tmp_path / "lowwater.toml"
    path.write_text(f'[alerts]\nwebhook = "https://{SECRET}"\non = ["reverted"]\n')
    settings = load(path, {})
    assert settings.alerts.address() == f"https://{SECRET}"
    assert "s3cret" not in f"{settings!r} {settings} {settings.alerts!r}"


@pytest.mark.parametrize(
    "address",
    [f"ftp://{SECRET}", SECRET, f"http://{SECRET}", f"https:///{SECRET}", f"https://a b/{SECRET}",
     f"https://h:99999/{SECRET}", f"https://[::1/{SECRET}", f"http://127.0.0.1.{SECRET}"],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(SettingsError) as caught:
        alert_settings({"webhook": address, "on": ["reverted"]}, "here")
    assert caught.value.message.startswith("here, [alerts]: webhook")
    assert "https://" in caught.value.next_step
    error: BaseException | None = caught.value
    while error is not None:
        assert "s3cret" not in f"{error!r} {getattr(error, 'next_step', '')}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "LOCALHOST"])
def test_plain_http_is_for_a_relay_on_this_machine(host: str) -> None:
    address = f"http://{host}:8080/{SECRET}"
    assert alert_settings({"webhook": address}, "here").address() == address


def test_a_file_is_read_each_time_and_its_address_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "webhook"
    found = alert_settings({"webhook_file": str(file)}, "here")
    with pytest.raises(SettingsError, match="cannot be read") as caught:
        found.address()
    assert caught.value.code == "WEBHOOK_UNREADABLE"
    for address in ("https://one", "https://two"):
        file.write_text(f"{address}\n")
        assert found.address() == address
    file.write_text(f"http://{SECRET}\n")
    with pytest.raises(SettingsError, match="plain http") as caught:
        found.address()
    assert str(file) in caught.value.message and "s3cret" not in str(caught.value)
    file.write_bytes(b"\xffs3cret")
    with pytest.raises(SettingsError, match="it is no text"):
        found.address()


def test_disks_alert_above_a_share_of_ones_own() -> None:
    found = alert_settings({"on": ["disk-above:92.5%", "stalled"]}, "here")
    assert found.disk_above == 0.925
    assert found.on == ("disk-above:92.5%", "stalled")


@pytest.mark.parametrize(
    ("table", "said", "next_step"),
    [
        ([], "is no table", "[alerts]"),
        ({"hook": "x"}, "unknown key 'hook'", "webhook"),
        ({"webhook": "https://a", "webhook_file": "/a"}, "'webhook' and 'webhook_file'", "one of"),
        ({"webhook": ""}, "'webhook'", "webhook ="),
        ({"webhook_file": 5}, "'webhook_file'", "webhook_file ="),
        ({"on": "reverted"}, "'on'", "on ="),
        ({"on": ["lost"]}, "on names 'lost'", "policy-refused"),
        ({"on": ["disk-above:0%"]}, "on names 'disk-above:0%'", "disk-above:90%"),
        ({"on": ["disk-above:80%", "disk-above:90%"]}, "disk-above:80% and", "one share"),
    ],
)
def test_a_wrong_value_is_named_with_the_next_step(table: Any, said: str, next_step: str) -> None:
    with pytest.raises(SettingsError) as caught:
        alert_settings(table, "here")
    assert caught.value.message.startswith("here, [alerts]")
    assert said in caught.value.message
    assert next_step in caught.value.next_step


def test_the_docs_name_every_key_and_alert() -> None:
    page = (Path(settings_module.__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")
    section = page.split("## Alerts")[1].split("## ")[0]
    assert all(
        f"`{name}`" in section for name in (*AlertSettings.__dataclass_fields__, *ALERT_NAMES)
    )
