"""`lowwater doctor`: which cluster it asks, and 0, 1 or 4 by what it finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dashboard.cluster.live
from dashboard.cli.machine import doctor as verb
from dashboard.cli.main import main
from dashboard.core.errors import ClusterError
from dashboard.doctor import cluster
from dashboard.doctor.doctor import Check, Held
from dashboard.domain.rights import DELETE_TOPIC, DESCRIBE_GROUP, RIGHTS
from dashboard.store.snapshots import ClusterStore, Store

FINE = Check("java", True, "version 17")
MISSING = Check("java", False, "no java", "analyze cannot run", "Install it.")


@pytest.fixture(autouse=True)
def healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "local_checks", lambda _settings, _data: [FINE])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Clusters that were asked, by their client properties; each is healthy."""
    found: list[dict[str, str]] = []

    @contextmanager
    def connect(client: dict[str, str], _timeout: Any) -> Iterator[SimpleNamespace]:
        found.append(client)
        yield SimpleNamespace(principal=lambda: "User:lw")

    monkeypatch.setattr(dashboard.cluster.live, "connect", connect)
    monkeypatch.setattr(
        cluster, "cluster_checks", lambda _live: [Check("brokers", True, "1 of 1 answered")]
    )
    monkeypatch.setattr(
        verb, "held_rights", lambda _live: tuple(Held(right, True) for right in RIGHTS)
    )
    return found


def _doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["doctor", *words, "--json"])
    value = json.loads(capsys.readouterr().out)
    return code, {check["name"]: check for check in value.get("checks", [])} or value


def test_without_a_cluster_the_rest_is_still_checked(capsys: pytest.CaptureFixture[str]) -> None:
    code, checks = _doctor(capsys)
    assert code == 0
    assert checks["java"]["ok"]
    assert checks["connection"]["ok"] is None
    assert "--bootstrap-server" in checks["connection"]["next"]


def test_something_missing_is_exit_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "local_checks", lambda _settings, _data: [MISSING])
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "MISSING java" in out
    assert "costs: analyze cannot run" in out
    assert "next:  Install it." in out


def test_a_cluster_that_cannot_be_reached_is_exit_4_and_a_check(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, checks = _doctor(capsys, "--bootstrap-server", "127.0.0.1:1")
    assert code == 4
    assert checks["connection"]["ok"] is False
    assert "CLUSTER_UNREACHABLE: no broker of 127.0.0.1:1" in checks["connection"]["detail"]
    assert checks["java"]["ok"]


def test_the_flag_comes_first_then_the_settings_then_the_data_folder(
    capsys: pytest.CaptureFixture[str], asked: list[dict[str, str]]
) -> None:
    ClusterStore(Store("d"), "c1").write_connection("stored:1", None, "prod")
    assert _doctor(capsys, "--data", "d")[0] == 0
    assert _doctor(capsys, "--data", "d", "--cluster", "prod")[0] == 0
    Path("lowwater.toml").write_text('[clusters.test]\n"bootstrap.servers" = "set:1"\n')
    assert _doctor(capsys, "--data", "d")[0] == 0
    assert _doctor(capsys, "--data", "d", "--bootstrap-server", "flag:1")[0] == 0
    assert [client["bootstrap.servers"] for client in asked] == [
        "stored:1",
        "stored:1",
        "set:1",
        "flag:1",
    ]


def test_where_the_data_folder_has_several_the_rest_is_still_checked(
    capsys: pytest.CaptureFixture[str], asked: list[dict[str, str]]
) -> None:
    for name in ("c1", "c2"):
        ClusterStore(Store("d"), name).write_connection(f"{name}:1", None, None)
    code, checks = _doctor(capsys, "--data", "d")
    assert (code, checks["connection"]["detail"], asked) == (0, "no cluster is named", [])


def test_a_cluster_that_nobody_knows_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], asked: list[dict[str, str]]
) -> None:
    code, value = _doctor(capsys, "--cluster", "nowhere")
    assert code == 1
    assert value["error"]["code"] == "CLUSTER_NOT_NAMED"
    assert asked == []


def _lacking(*missing: object) -> object:
    return lambda _live: tuple(Held(right, right not in missing) for right in RIGHTS)


def test_the_table_of_rights_says_which_are_ours_and_what_is_lost(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    asked: list[dict[str, str]],
) -> None:
    monkeypatch.setattr(verb, "held_rights", _lacking(DELETE_TOPIC))
    assert main(["doctor", "--bootstrap-server", "flag:1"]) == 0  # a dashboard needs none
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if line.startswith("Delete Topic")]
    assert "missing" in row
    assert "lost: purge (lacks Delete Topic)" in out
    monkeypatch.setattr(verb, "held_rights", _lacking(DESCRIBE_GROUP))
    assert main(["doctor", "--bootstrap-server", "flag:1", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["principal"] == "User:lw"
    (right,) = [r for r in value["rights"] if r["granted"] is False]
    assert (right["operation"], right["resource"]) == ("Describe", "Group")
    assert "--allow-principal User:lw --operation Describe --group" in right["command"]
    assert "plan" in {f["feature"] for f in value["features"] if f["lacks"]}


def test_rights_that_nobody_tells_of_fail_nothing(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    asked: list[dict[str, str]],
) -> None:
    def refused(_: object) -> object:
        raise ClusterError("no rights are told here", "Ask who runs the service.")

    monkeypatch.setattr(verb, "held_rights", refused)
    code, checks = _doctor(capsys, "--bootstrap-server", "flag:1")
    assert (code, checks["rights"]["ok"]) == (0, None)
    assert "no rights are told here" in checks["rights"]["detail"]
