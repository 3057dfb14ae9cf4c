"""`lowwater collect` and `watch`: which cluster is meant, what is remembered, how a loop ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dashboard.cluster.live
import dashboard.collect.collect
import dashboard.collect.watch
from dashboard.cli.machine import watch as watch_verb
from dashboard.cli.machine.collect import describe
from dashboard.cli.main import main
from dashboard.collect.collect import Collected
from dashboard.core.errors import ClusterError
from dashboard.settings.sections import SnapshotSettings
from dashboard.store.snapshots import Connection, Store

COLLECTED = Collected(
    "20260301T040000000Z-0001",
    datetime(2026, 3, 1, 4, tzinfo=UTC),
    {"brokers": 2},
    (
        {"broker_id": 1, "reachable": True, "error": None},
        {"broker_id": 2, "reachable": False, "error": "timed out"},
    ),
    1.5,
    ("broker 2 did not answer",),
    ({"part": "configs", "object": "topic a", "error": "TOPIC_AUTHORIZATION_FAILED"},),
)


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Connections that were opened, by their client properties; the cluster is called c1."""
    found: list[dict[str, str]] = []

    @contextmanager
    def connect(client: dict[str, str], _timeout: timedelta) -> Iterator[Any]:
        found.append(client)
        cluster_id = "c2" if client["bootstrap.servers"] == "other:1" else "c1"
        yield SimpleNamespace(cluster_id=lambda: cluster_id)

    monkeypatch.setattr(dashboard.cluster.live, "connect", connect)
    monkeypatch.setattr(dashboard.collect.collect, "collect", lambda *_words, **_more: COLLECTED)
    return found


def _printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def _settings(text: str) -> None:
    Path("lowwater.toml").write_text(text)


def test_a_missing_broker_is_told_and_is_exit_0(
    reached: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", "--bootstrap-server", "h:1", "--data", "d", "--json"]) == 0
    value = _printed(capsys)
    assert {"snapshot_id", "taken_at", "tables", "brokers", "seconds"} <= set(value)
    assert value["brokers"][1] == {"broker_id": 2, "reachable": False, "error": "timed out"}
    assert value["taken_at"] == "2026-03-01T04:00:00.000Z"
    assert main(["collect", "--bootstrap-server", "h:1", "--data", "d"]) == 0
    out = capsys.readouterr().out
    assert "1 of 2 brokers" in out
    assert "missing: broker 2: timed out" in out
    assert "groups may be incomplete: broker 2 did not answer" in out
    assert "not read: configs of topic a: TOPIC_AUTHORIZATION_FAILED" in out


def test_the_age_of_each_inventory_is_told() -> None:
    disk = {"broker_id": 1, "segments": 3, "age_seconds": 300.2, "newest_from": "mtime"}
    ahead = {**disk, "broker_id": 2, "age_seconds": -4.0}
    told = describe({**COLLECTED.to_json(), "inventories": [disk, ahead]})
    assert "disk of broker 1: 3 segments, seen 300 s ago, ages by mtime" in told
    assert "disk of broker 2: 3 segments, seen 4 s ahead of this clock" in told


def test_how_a_cluster_was_reached_is_remembered_without_secrets(
    reached: list[dict[str, str]], capsys: pytest.CaptureFixture[str], alone: Path
) -> None:
    (alone / "client.properties").write_text("sasl.username=u\nsasl.password=hunter2\n")
    words = ["--client-config", "client.properties", "--name", "prod", "--data", "d"]
    assert main(["collect", "--bootstrap-server", "h:1", *words, "--json"]) == 0
    assert reached[0]["sasl.password"] == "hunter2"
    cluster = Store("d").cluster("prod")
    config = str(alone / "client.properties")
    assert cluster.connection() == Connection("h:1", config, "prod")
    assert "hunter2" not in capsys.readouterr().out
    assert main(["collect", "--bootstrap-server", "h:2", "--data", "d", "--json"]) == 0
    assert Store("d").cluster("c1").name == "prod"


def test_without_an_address_the_settings_section_is_used(
    reached: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    _settings('[clusters.prod]\n"bootstrap.servers" = "h:1"\n"client.id" = "x"\n')
    assert main(["collect", "--data", "d", "--json"]) == 0
    assert reached == [{"bootstrap.servers": "h:1", "client.id": "x"}]
    assert Store("d").cluster().name == "prod"


@pytest.mark.parametrize("verb", ["collect", "watch"])
def test_settings_say_how_long_snapshots_stay(
    reached: list[dict[str, str]], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []

    def taken(*_words: Any, keep: Callable[[], SnapshotSettings], **_more: Any) -> Collected:
        kept.append((keep().keep_all_for, keep().keep_hourly_for, keep().keep_daily_for))
        if verb == "watch":
            _settings('[clusters.prod]\n"bootstrap.servers" = "h:1"\n')
            kept.append(keep().keep_all_for)
        return COLLECTED

    monkeypatch.setattr(dashboard.collect.collect, "collect", taken)
    monkeypatch.setattr(dashboard.collect.watch, "run", taken)
    _settings(
        '[clusters.prod]\n"bootstrap.servers" = "h:1"\n[snapshots]\nkeep_all_for = "2h"\n'
        'keep_hourly_for = "2d"\nkeep_daily_for = "0s"\n'
    )
    assert main([verb, "--data", "d"]) in (0, 130)
    now = [timedelta(hours=1)] if verb == "watch" else []
    assert kept == [(timedelta(hours=2), timedelta(days=2), timedelta(0)), *now]


def test_people_are_told_how_many_older_snapshots_went_and_which_could_not() -> None:
    failed = {"part": "prune", "object": "snapshots/x", "error": "Permission denied"}
    value = replace(COLLECTED, removed=("a", "b"), errors=(failed,)).to_json()
    text = describe(value)
    assert "no longer kept: 2 older" in text
    assert "not removed: prune of snapshots/x: Permission denied" in text


@pytest.mark.parametrize("verb", ["collect", "watch"])
def test_brokers_metrics_are_named_by_settings_and_flags(
    reached: list[dict[str, str]], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []

    def taken(*_words: Any, metrics: Any, **_more: Any) -> Collected:
        found.append(metrics)
        return COLLECTED

    monkeypatch.setattr(dashboard.collect.collect, "collect", taken)
    monkeypatch.setattr(dashboard.collect.watch, "run", taken)
    _settings(
        'broker_timeout = "3s"\n[clusters.prod]\n"bootstrap.servers" = "h:1"\n'
        '"metrics.urls" = "1=http://h:7071/metrics, 2=http://i:7071/metrics"\n'
    )
    assert main([verb, "--data", "d", "--metrics", "2=other.prom"]) in (0, 130)
    assert main([verb, "--data", "d", "--bootstrap-server", "h:1"]) in (0, 130)
    sources, none = found
    assert sources.by_broker == {1: "http://h:7071/metrics", 2: "other.prom"}
    assert (sources.timeout, none) == (timedelta(seconds=3), None)
    connected = 2 if verb == "collect" else 0  # `watch` connects in its loop, which is replaced
    assert ["metrics.urls" in client for client in reached] == [False] * connected


@pytest.mark.parametrize(
    ("settings", "words", "code"),
    [
        ("", [], "CLUSTER_NOT_NAMED"),
        ("", ["--cluster", "prod"], "CLUSTER_NOT_NAMED"),
        (
            '[clusters.a]\n"bootstrap.servers"="h:1"\n[clusters.b]\n"bootstrap.servers"="h:2"',
            [],
            "CLUSTER_AMBIGUOUS",
        ),
        ('[clusters.a]\n"bootstrap.servers"="h:1"', ["--cluster", "b"], "CLUSTER_NOT_FOUND"),
        ("", ["--client-config", "none"], "CLIENT_CONFIG_UNREADABLE"),
        ("", ["--inventories", "x"], "USAGE"),
        ("", ["--bootstrap-server", "h:1", "--metrics", "h:1"], "METRICS_SOURCE_INVALID"),
        (
            '[clusters.a]\n"bootstrap.servers"="h:1"\n"metrics.urls"="1=ftp://h"',
            [],
            "METRICS_SOURCE_INVALID",
        ),
        ("", ["--bootstrap-server", "h:1", "--inventory", "none"], "INVENTORY_UNREADABLE"),
        ("", ["--bootstrap-server", "h:1", "--data", "gopher://x"], "DATA_INVALID"),
    ],
)
def test_what_does_not_name_a_cluster_is_refused(
    reached: list[dict[str, str]],
    capsys: pytest.CaptureFixture[str],
    settings: str,
    words: list[str],
    code: str,
) -> None:
    _settings(settings)
    assert main(["collect", *words, "--json"]) == 1
    assert _printed(capsys)["error"]["code"] == code
    assert reached == []


def test_a_name_of_another_cluster_is_refused_before_anything_is_written(
    reached: list[dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--name", "prod", "--data", "d", "--json"]
    assert main(["collect", "--bootstrap-server", "h:1", *words]) == 0
    capsys.readouterr()
    assert main(["collect", "--bootstrap-server", "other:1", *words]) == 1
    assert _printed(capsys)["error"]["code"] == "CLUSTER_MISMATCH"
    assert Store("d").clusters() == ["c1"]


def test_an_address_where_nobody_listens_is_exit_4(
    capsys: pytest.CaptureFixture[str], alone: Path
) -> None:
    assert main(["collect", "--bootstrap-server", "127.0.0.1:1", "--data", "d", "--json"]) == 4
    error = _printed(capsys)["error"]
    assert error["code"] == "CLUSTER_UNREACHABLE"
    assert "127.0.0.1:1" in error["message"]
    assert not (alone / "d").exists()


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let `watch` be this loop, which is given the callbacks."""
    return lambda act: monkeypatch.setattr(dashboard.collect.watch, "run", act)


EVENTS = (
    {"event": "snapshot", **COLLECTED.to_json()},
    {"event": "analysis-ready", "seconds": 4.2},
    {"event": "analysis", "analysis_id": "a1", "seconds": 0.5},
    {"event": "error", "error": {"code": "X", "message": "broker is gone", "next": "Wait."}},
)


def test_watch_prints_one_event_a_line_and_ctrl_c_is_130(
    loop: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def act(_open: Any, _store: Any, *, every: timedelta, emit: Any, **_more: Any) -> None:
        assert every == timedelta(seconds=5)
        for event in EVENTS:
            emit(event)
        raise KeyboardInterrupt

    loop(act)
    words = ["watch", "--bootstrap-server", "h:1", "--every", "5s"]
    assert main([*words, "--json"]) == 130
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["event"] for line in lines] == [e["event"] for e in EVENTS]
    assert main(words) == 130
    out = capsys.readouterr().out
    assert "analysis ready after 4.2 s" in out
    assert "analysis a1 in 0.5 s" in out
    assert "broker is gone\nnext: Wait." in out


@pytest.mark.parametrize("by_flag", [True, False])
def test_watch_connects_anew_with_what_the_client_config_says_then(
    loop: Callable[..., None], reached: list[dict[str, str]], by_flag: bool
) -> None:
    config = Path("client.properties")
    config.write_text("sasl.password=old\n")
    section = '[clusters.prod]\n"bootstrap.servers" = "h:1"\n'
    _settings(section if by_flag else section + '"client.config" = "client.properties"\n')

    def act(open_live: Any, *_words: Any, outdated: Any, **_more: Any) -> None:
        for content in ("sasl.password=old\n", "sasl.password=new\n", "half of it", None):
            if content is None:
                config.unlink()
            else:
                config.write_text(content)
            differs.append(outdated())
            with open_live():
                pass
            assert not outdated()
        raise KeyboardInterrupt

    differs: list[bool] = []
    loop(act)
    assert main(["watch", *(["--client-config", str(config)] if by_flag else []), "--json"]) == 130
    assert [client["sasl.password"] for client in reached] == ["old", "new", "new", "new"]
    assert differs == [False, True, False, False], "at first nothing is open"


def test_watch_without_a_cluster_is_exit_4(
    loop: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def act(*_words: Any, **_more: Any) -> None:
        raise ClusterError("h:1 could not be reached", "Start it.")

    loop(act)
    assert main(["watch", "--bootstrap-server", "h:1", "--json"]) == 4
    assert _printed(capsys)["error"]["code"] == "CLUSTER_UNREACHABLE"


@pytest.mark.parametrize("every", ["0s", "500ms", "soon"])
def test_watch_refuses_a_pace_without_sense(capsys: pytest.CaptureFixture[str], every: str) -> None:
    assert main(["watch", "--bootstrap-server", "h:1", "--every", every, "--json"]) == 1
    assert _printed(capsys)["error"]["code"] in ("USAGE", "DURATION_INVALID")


def test_a_reader_that_went_away_ends_the_loop(alone: Path) -> None:
    script = (
        "import sys, time\n"
        "import dashboard.collect.watch\n"
        "from dashboard.cli.main import main\n"
        "def act(*_words, emit, **_more):\n"
        "    while True:\n"
        "        emit({'event': 'analysis', 'text': 'x' * 10000})\n"
        "        time.sleep(0.01)\n"
        "dashboard.collect.watch.run = act\n"
        "sys.exit(main(['watch', '--bootstrap-server', 'h:1', '--json']))\n"
    )
    read, write = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(watch_verb.__file__).parents[3])},
    )
    os.close(write)
    os.close(read)
    _, err = child.communicate(timeout=240)
    assert child.returncode == 130
    assert "Traceback" not in err
