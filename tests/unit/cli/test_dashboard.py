"""The command that serves the pages keeps them to this machine, and passes on what was chosen."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.cli.machine import dashboard
from dashboard.cli.machine.dashboard import Listening, check_free, chosen
from dashboard.core.errors import UsageError
from dashboard.settings.settings import Settings

HERE = Listening("127.0.0.1", 8501)


def test_the_server_listens_on_loopback_and_reports_to_nobody() -> None:
    words = dashboard.command(HERE, None)

    for flag in (
        "--server.address=127.0.0.1", "--server.headless=true", "--server.port=8501",
        "--browser.gatherUsageStats=false", "--client.toolbarMode=minimal",
        "--client.showErrorDetails=none", "--server.enableAgentApi=false",
        "--server.enableCORS=true", "--server.enableXsrfProtection=true",
        "--server.trustedUserHeaders={}",
        "--server.allowedHosts=127.0.0.1", "--server.allowedHosts=localhost",
        "--server.allowedHosts=::1", "--server.corsAllowedOrigins=http://127.0.0.1:8501",
    ):  # fmt: skip
        assert flag in words
    assert sum(word.startswith("--server.allowedHosts") for word in words) == 3
    assert "--" not in words


def test_the_cluster_travels_behind_the_dashes() -> None:
    assert dashboard.command(HERE, "prod-eu")[-3:] == ["--", "--cluster", "prod-eu"]


def test_no_variable_of_the_caller_opens_what_the_flags_shut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAMLIT_SERVER_TRUSTED_USER_HEADERS", '{"X-User": "email"}')

    assert not [k for k in dashboard.environment(Settings()) if k.startswith("STREAMLIT_")]


def test_the_pages_share_two_arenas_unless_the_caller_chose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    assert dashboard.environment(Settings())["MALLOC_ARENA_MAX"] == "2"
    monkeypatch.setenv("MALLOC_ARENA_MAX", "8")
    assert dashboard.environment(Settings())["MALLOC_ARENA_MAX"] == "8"


def test_what_a_page_took_for_a_moment_goes_back_and_no_run_ends_with_a_look_at_every_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    found = dashboard.environment(Settings())

    assert found["MALLOC_MMAP_THRESHOLD_"] == "131072"
    assert found["ARROW_DEFAULT_MEMORY_POOL"] == "jemalloc"  # as the caller chose
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL")
    assert dashboard.environment(Settings())["ARROW_DEFAULT_MEMORY_POOL"] == "system"
    assert "--runner.postScriptGC=false" in dashboard.command(HERE, None)


def test_data_and_settings_reach_the_pages_as_absolute_paths() -> None:
    found = dashboard.environment(Settings(data="data", source=Path("lowwater.toml")))

    assert found["LOWWATER_DATA"] == str(Path("data").absolute())
    assert found["LOWWATER_SETTINGS"] == str(Path("lowwater.toml").absolute())


def test_a_data_url_stays_as_it_is() -> None:
    assert dashboard.environment(Settings(data="s3://bucket/lw"))["LOWWATER_DATA"] == (
        "s3://bucket/lw"
    )


@pytest.mark.parametrize(
    ("address", "port", "proxy", "code"),
    [
        ("127.0.0.1", 0, None, "PORT_INVALID"),
        ("127.0.0.1", -1, None, "PORT_INVALID"),
        ("127.0.0.1", 65536, None, "PORT_INVALID"),
        ("0.0.0.0", 8501, None, "ADDRESS_OPEN"),
        ("::", 8501, None, "ADDRESS_OPEN"),
        ("192.0.2.7", 8501, None, "ADDRESS_OPEN"),
        ("host.example.org", 8501, None, "ADDRESS_INVALID"),
        ("", 8501, None, "ADDRESS_INVALID"),
        ("0.0.0.0", 8501, "lowwater.example.org", "PROXY_INVALID"),
        ("0.0.0.0", 8501, "http://lowwater.example.org", "PROXY_INVALID"),
        ("0.0.0.0", 8501, "https://*.example.org", "PROXY_INVALID"),
        ("0.0.0.0", 8501, "https://ann@lowwater.example.org", "PROXY_INVALID"),
        ("0.0.0.0", 8501, "https://lowwater.example.org/kafka", "PROXY_INVALID"),
        ("0.0.0.0", 8501, "https://lowwater.example.org:web", "PROXY_INVALID"),
        ("0.0.0.0", 8501, "https://", "PROXY_INVALID"),
    ],
)
def test_a_door_that_would_stand_open_is_a_named_error(
    address: str, port: int, proxy: str | None, code: str
) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(address, port, proxy)

    assert caught.value.code == code


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "127.0.0.2", "::1"])
def test_loopback_needs_nothing_and_warns_of_nothing(address: str) -> None:
    place = chosen(address, 8501, None)

    assert place.loopback and place.warning("ada") is None


def test_behind_a_proxy_its_name_and_origin_are_served_and_the_operator_is_warned() -> None:
    place = chosen("0.0.0.0", 8501, "https://Lowwater.example.org:443/")

    assert "lowwater.example.org" in place.names and "0.0.0.0" not in place.names
    assert place.origin == "https://lowwater.example.org"
    assert ("browser.serverAddress", "lowwater.example.org") in place.flags
    assert place.url == "http://127.0.0.1:8501"
    warning = place.warning("ada") or ""
    assert "acts as ada" in warning and "reaches 0.0.0.0:8501" in warning


def test_a_proxy_of_this_machine_is_warned_of_too() -> None:
    warning = chosen("127.0.0.1", 8501, "https://lowwater.example.org").warning("ada") or ""

    assert "acts as ada" in warning and "firewall" not in warning


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError) as caught:
            check_free(Listening("127.0.0.1", taken.getsockname()[1]))

    assert caught.value.code == "PORT_TAKEN"


class Healthy(BaseHTTPRequestHandler):
    """Answers as the server of the pages does once it is up."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/_stcore/health" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_the_own_server_is_asked_itself_also_where_a_proxy_leads_to_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dashboard, "_START_SECONDS", 2.0)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    running: Any = SimpleNamespace(poll=lambda: None)
    with socket.socket() as nobody, HTTPServer(("127.0.0.1", 0), Healthy) as pages:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        try:
            dashboard._wait_until_up(running, f"http://127.0.0.1:{pages.server_port}")
        finally:
            pages.shutdown()
