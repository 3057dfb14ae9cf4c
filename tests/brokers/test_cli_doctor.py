"""Doctor on a secured broker: a refused login and each missing right is named with its cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from tests.brokers.secured import LIMITED, LIMITED_SECRET, SecuredCluster


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))


def _doctor(
    client: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, dict[str, Any]]]:
    text = "".join(f"{key}={value}\n" for key, value in client.items())
    Path("client.properties").write_text(text)
    code = main(["doctor", "--client-config", "client.properties", "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    return code, {check["name"]: check for check in checks}


@pytest.mark.further
def test_an_admin_lacks_no_right(
    secured_cluster: SecuredCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    _, checks = _doctor(secured_cluster.sasl_tls(), capsys)
    for name in ("connection", "brokers", "log-dirs", "groups", "reassignments"):
        assert checks[name]["ok"], checks[name]


@pytest.mark.further
def test_a_user_without_rights_is_told_what_each_costs(
    secured_cluster: SecuredCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    client = secured_cluster.sasl_plain(LIMITED, LIMITED_SECRET)
    code, checks = _doctor(client, capsys)
    assert code == 1
    assert checks["connection"]["ok"]
    assert "not measurable" in checks["log-dirs"]["costs"]
    assert "every purge is refused" in checks["groups"]["costs"]
    assert "DESCRIBE" in checks["groups"]["detail"]
    for name in ("log-dirs", "groups"):
        assert checks[name]["ok"] is False
        assert "kafka-acls" in checks[name]["next"]


def test_a_refused_login_is_exit_4_and_named(
    secured_cluster: SecuredCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, checks = _doctor(secured_cluster.sasl_plain(LIMITED, "wrong"), capsys)
    assert code == 4
    assert checks["connection"]["ok"] is False
    assert "AUTHENTICATION_FAILED" in checks["connection"]["detail"]
    assert "wrong" not in checks["connection"]["detail"]


def test_a_strangers_certificate_is_exit_4_and_named(
    secured_cluster: SecuredCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    client = secured_cluster.tls(secured_cluster.certificates.stranger)
    code, checks = _doctor(client, capsys)
    assert code == 4
    assert "TLS_FAILED" in checks["connection"]["detail"]
