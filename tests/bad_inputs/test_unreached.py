"""The codes that neither an input nor another test brings forth: each where it is given."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dashboard.cli.machine import dashboard as pages
from dashboard.cluster import topics
from dashboard.core.errors import AnalysisError, LowwaterError
from dashboard.demo import load
from dashboard.demo.kafka import brokers, jars
from dashboard.demo.supervisor import Supervisor
from dashboard.orphans.sweep import aside, places
from dashboard.orphans.sweep import quarantine as sweep_quarantine
from dashboard.purge.jobs.worker_process import spawn
from dashboard.purge.plan.drafts import PlanRequest, _topics
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.settings import Settings


def code_of(call: Callable[[], Any]) -> str:
    """The code of the error that a call ends with; its next step is there."""
    with pytest.raises(LowwaterError) as caught:
        call()
    assert caught.value.next_step.strip()
    return caught.value.code


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOLCK, "no locks available")


def test_a_worker_whose_log_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    settings = Settings(state_dir=tmp_path / "state")
    assert code_of(lambda: spawn(settings, "run")) == "WORKER_NOT_STARTED"


def test_a_plan_without_topics() -> None:
    assert code_of(lambda: _topics(PlanRequest((), parse_target("committed")))) == "NO_TOPIC"


def test_reassignments_that_no_controller_tells() -> None:
    answer = SimpleNamespace(error_code=7)
    refused = SimpleNamespace(ask_any=lambda _: answer, timeout_seconds=1.0)
    found = code_of(lambda: topics.read_reassignments(refused))  # type: ignore[arg-type]
    assert found == "REASSIGNMENTS_UNKNOWN"


def test_a_quarantine_that_cannot_be_made_locked_or_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    place = places.Place(tmp_path / "file" / "q", tmp_path.stat().st_dev, ())
    quarantine = sweep_quarantine.opened_quarantine(place, make=True)
    assert code_of(quarantine.__enter__) == "QUARANTINE_UNWRITABLE"
    folder = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert code_of(lambda: sweep_quarantine.lock(folder, "q")) == "SWEEP_LOCK_FAILED"
    os.close(folder)
    item = SimpleNamespace(directory="a-0", path=lambda place: place / "a-0")
    site: Any = SimpleNamespace(aside=lambda: [(Path("/one"), item), (Path("/two"), item)])
    assert code_of(lambda: aside.find(site, "a-0")) == "QUARANTINED_AMBIGUOUS"


def test_pages_that_end_or_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_of(lambda: pages._ended(3)) == "PAGES_ENDED"
    monkeypatch.setattr(pages, "_START_SECONDS", 0.0)
    server: Any = SimpleNamespace(poll=lambda: None)
    assert code_of(lambda: pages._wait_until_up(server, "http://127.0.0.1:1")) == "PAGES_NOT_UP"


def test_a_demo_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    none = jars.KafkaJars("4.3.1", tmp_path, "false")
    cluster = brokers.LocalCluster(tmp_path, none, brokers=1)
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "broker.log").write_text("no memory\n")
    assert code_of(lambda: cluster._run_storage_tool(1)) == "BROKER_FORMAT_FAILED"
    cluster._processes[1] = SimpleNamespace(poll=lambda: 1)  # type: ignore[assignment]
    monkeypatch.setattr(brokers, "alive_brokers", lambda _: set())
    assert code_of(lambda: cluster._await_serving([1])) == "BROKER_START_FAILED"
    monkeypatch.setattr(brokers.socket.socket, "bind", refuse)
    assert code_of(lambda: brokers.free_ports(1)) == "NO_FREE_PORTS"
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert code_of(jars._jar) == "IVY_MISSING"


def test_a_demo_whose_part_or_load_fails(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("killed\n")
    demo: Any = SimpleNamespace(_place=SimpleNamespace(log=lambda _: tmp_path / "log"))
    assert Supervisor._failed(demo, "watch", "ended").code == "DEMO_PART_FAILED"
    assert code_of(lambda: load._flush(_Stuck(), [])) == "DEMO_LOAD_FAILED"  # type: ignore[arg-type]


def test_a_store_that_spark_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    main = importlib.import_module("analytics.__main__")
    monkeypatch.setattr(main, "executors_watched", lambda *_: nullcontext())
    monkeypatch.setattr(main, "no_connector", lambda _: True)

    def analyze(*_: Any, **__: Any) -> None:
        raise AnalysisError("No FileSystem for scheme s3a", "Name its jar.")

    monkeypatch.setattr(main, "analyze", analyze)
    cluster = SimpleNamespace(store=SimpleNamespace(root="s3://b"))
    found = code_of(lambda: main._analyze(None, Settings(), cluster, None, False))
    assert found == "SPARK_CONNECTOR_MISSING"


class _Stuck:
    """A producer whose brokers take nothing."""

    def __len__(self) -> int:
        return 3

    def flush(self, _seconds: float) -> int:
        return 3
