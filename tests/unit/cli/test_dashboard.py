"""The command that serves the pages keeps them to this machine, and passes on what was chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.cli import dashboard
from dashboard.errors import UsageError
from dashboard.settings import Settings


def test_the_server_listens_on_loopback_and_reports_to_nobody() -> None:
    words = dashboard.command(8501, None)

    for flag in (
        "--server.address=127.0.0.1", "--server.headless=true", "--server.port=8501",
        "--browser.gatherUsageStats=false", "--client.toolbarMode=minimal",
        "--client.showErrorDetails=none",
    ):  # fmt: skip
        assert flag in words
    assert not any("enableAgentApi" in word for word in words)
    assert "--" not in words


def test_the_cluster_travels_behind_the_dashes() -> None:
    assert dashboard.command(8501, "prod-eu")[-3:] == ["--", "--cluster", "prod-eu"]


def test_data_and_settings_reach_the_pages_as_absolute_paths() -> None:
    found = dashboard.environment(Settings(data="data", source=Path("lowwater.toml")))

    assert found["LOWWATER_DATA"] == str(Path("data").absolute())
    assert found["LOWWATER_SETTINGS"] == str(Path("lowwater.toml").absolute())


def test_a_data_url_stays_as_it_is() -> None:
    assert dashboard.environment(Settings(data="s3://bucket/lw"))["LOWWATER_DATA"] == (
        "s3://bucket/lw"
    )


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_number_that_is_no_port_is_named(port: int) -> None:
    with pytest.raises(UsageError) as caught:
        dashboard.check_port(port)

    assert caught.value.code == "PORT_INVALID"
