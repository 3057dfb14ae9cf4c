"""The JMX exporter of the demo's brokers: its flag, its rules, and a jar that cannot be had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dashboard.broker_metrics.exposition import RULES
from dashboard.core.errors import DemoError
from dashboard.demo.kafka import jars
from dashboard.demo.supervisor import Supervisor
from dashboard.settings.settings import Settings

JAR = f"jmx_prometheus_javaagent-{jars.VERSION}.jar"


def fetched(into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    (into / JAR).write_bytes(b"jar")


def test_the_flag_names_loopback_and_the_rules_that_the_docs_show(tmp_path: Path) -> None:
    (flag,) = jars.flags(Path("/cache/agent.jar"), 7071, tmp_path)
    assert flag == f"-javaagent:/cache/agent.jar=127.0.0.1:7071:{tmp_path}/exporter.yaml"
    assert (tmp_path / "exporter.yaml").read_text() == RULES
    assert jars.address(7071) == "http://127.0.0.1:7071/metrics"


def test_the_jar_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def retrieve(_java: str, _home: Path, wanted: Any, into: Path, **_more: Any) -> str | None:
        asked.append([(a.org, a.name, a.version) for a in wanted])
        fetched(into)
        return None

    monkeypatch.setattr(jars, "retrieve", retrieve)
    first = jars.resolve_exporter("java", tmp_path)
    assert jars.resolve_exporter("java", tmp_path) == first
    assert first.read_bytes() == b"jar"
    assert asked == [[("io.prometheus.jmx", "jmx_prometheus_javaagent", jars.VERSION)]]


def test_a_jar_that_cannot_be_had_is_named_and_the_demo_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "retrieve", lambda *_words, **_more: "module not found")
    with pytest.raises(DemoError) as error:
        jars.resolve_exporter("java", tmp_path)
    assert error.value.code == "EXPORTER_UNAVAILABLE"
    said: list[str] = []
    demo = Supervisor(Settings(cache_dir=tmp_path), said.append, lambda _state: None)
    place: Any = None  # nothing is written without the jar
    assert demo._exporters("java", place) == ({}, {})
    assert "no broker metrics: the JMX exporter" in said[0]
