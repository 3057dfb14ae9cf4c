"""The archive of Kafka's classes that a run makes for its brokers: none waits or fails for it."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from dashboard.core.errors import DemoError
from dashboard.demo.kafka.jars import KafkaJars
from tests.support import class_data


@pytest.fixture
def jars(tmp_path: Path) -> KafkaJars:
    return KafkaJars("4.3.1", tmp_path / "jars", "java")


def made(_jars: KafkaJars, target: Path) -> None:
    target.write_bytes(b"classes")


def test_it_is_made_once(jars: KafkaJars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_data, "_make", made)
    first = class_data.archived(jars, tmp_path).class_data
    assert first is not None and first.read_bytes() == b"classes"
    monkeypatch.setattr(class_data, "_make", lambda *_: pytest.fail("made again"))
    assert class_data.archived(jars, tmp_path).class_data == first


def test_while_another_process_makes_it_brokers_do_without(
    jars: KafkaJars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_data, "_make", lambda *_: pytest.fail("made twice at once"))
    (tmp_path / "class-data").mkdir()
    name = f"kafka-4.3.1-{class_data._key(jars)}.lock"
    with (tmp_path / "class-data" / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert class_data.archived(jars, tmp_path) == jars


def test_without_a_broker_there_is_none(
    jars: KafkaJars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*_: object) -> None:
        raise DemoError("no broker", "", code="BROKER_START_FAILED")

    monkeypatch.setattr(class_data, "_make", failed)
    assert class_data.archived(jars, tmp_path) == jars
