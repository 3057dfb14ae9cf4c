"""Jars are fetched once, whole, by one start at a time; what is missing is named."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dashboard.core.errors import DemoError
from dashboard.demo.kafka import jars

# Stands for Java: notes its call, and "retrieves" one jar to where Ivy was told to.
FAKE_JAVA = """#!/bin/sh
echo called >> {calls}
while [ "$1" != "-retrieve" ]; do shift; done
folder=$(dirname "$2")
mkdir -p "$folder"
{then}
"""


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls"


def install_java(tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    java = tmp_path / "home" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(FAKE_JAVA.format(calls=calls, then=then))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))


GOOD = "touch $folder/kafka_2.13-4.3.1.jar $folder/kafka-tools-4.3.1.jar"


def test_a_version_is_fetched_once(
    tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, calls, monkeypatch, GOOD)
    first = jars.resolve("4.3.1", tmp_path / "cache")
    assert jars.resolve("4.3.1", tmp_path / "cache") == first
    assert first.has_tools
    assert calls.read_text().splitlines() == ["called"]


def test_an_interrupted_fetch_is_begun_again(
    tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, calls, monkeypatch, GOOD)
    home = tmp_path / "cache" / "kafka-4.3.1"
    for folder in ("jars", "jars.partial"):  # as a kill before the last step leaves them
        (home / folder).mkdir(parents=True)
        (home / folder / "kafka_2.13-4.3.1.jar").write_text("half")
    found = jars.resolve("4.3.1", tmp_path / "cache")
    assert (found.folder / "kafka_2.13-4.3.1.jar").read_text() == ""
    assert not (home / "jars.partial").exists()


def test_two_starts_at_once_fetch_once(
    tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, calls, monkeypatch, f"sleep 0.2; {GOOD}")
    starts = [
        threading.Thread(target=jars.resolve, args=("4.3.1", tmp_path / "cache")) for _ in range(3)
    ]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert calls.read_text().splitlines() == ["called"]


def test_a_version_without_the_tools_is_fetched_without_them(
    tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = f"[ $(wc -l < {calls}) = 2 ] || exit 1; touch $folder/kafka_2.13-4.4.0.jar"
    install_java(tmp_path, calls, monkeypatch, once)
    assert not jars.resolve("4.4.0", tmp_path / "cache").has_tools
    module = (tmp_path / "cache" / "kafka-4.4.0" / "ivy.xml").read_text()
    assert '<exclude org="org.apache.kafka" module="kafka-tools-api"/>' in module


def test_a_version_that_cannot_be_had_is_named_with_the_cause(
    tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, calls, monkeypatch, "echo 'module not found: kafka_2.13'; exit 1")
    with pytest.raises(DemoError, match=r"Kafka 9\.9\.9.*module not found") as caught:
        jars.resolve("9.9.9", tmp_path / "cache")
    assert caught.value.code == "KAFKA_JARS_UNAVAILABLE"
    assert not (tmp_path / "cache" / "kafka-9.9.9" / "complete").exists()


@pytest.mark.parametrize("version", ["latest", "4.3", "../4.3.1", "4.3.1; rm"])
def test_what_is_no_version_is_refused_before_anything_is_fetched(
    version: str, tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(tmp_path, calls, monkeypatch, GOOD)
    with pytest.raises(DemoError, match="no Kafka version"):
        jars.resolve(version, tmp_path / "cache")
    assert not calls.exists()
