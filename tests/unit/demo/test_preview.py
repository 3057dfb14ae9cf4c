"""The preview's patch is built once, whole, from the sources that it knows; else it says why."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import DemoError
from dashboard.demo.kafka import preview
from dashboard.demo.kafka.preview import patch_apis, patch_schemas

REQUEST = {"name": "DeleteRecordsRequest", "validVersions": "0-2", "flexibleVersions": "2+"}
REQUEST |= {"fields": [{"name": "Topics"}, {"name": "TimeoutMs"}]}
PARTITIONS = {"name": "Partitions", "fields": [{"name": "LowWatermark"}, {"name": "ErrorCode"}]}
RESPONSE = {"name": "DeleteRecordsResponse", "validVersions": "0-2", "flexibleVersions": "2+"}
RESPONSE |= {"fields": [{"name": "Topics", "fields": [{"name": "Name"}, PARTITIONS]}]}
APIS = "a\n  replicaManager.deleteRecords(\n  t)\n  r.setLowWatermark(partitionResult.lowWatermark)"
# Stands for Java: notes the program, makes what it would make, then does what the test wants.
FAKE_JAVA = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    *.Main|*.MessageGenerator) main=$1; echo "$main" >> {home}/calls;;
    -retrieve) mkdir -p "$(dirname "$2")"; cp {home}/tools/* "$(dirname "$2")";;
    -o) mkdir "$2"; touch "$2/ApiMessageType.java";;
    -d) touch "$2/$main.class";;
  esac
  shift
done
{then}
"""
ALL = ["ivy.Main", "message.MessageGenerator", "batch.Main", "nsc.Main"]


class Workshop:
    """A cache that holds Kafka's jars already, and a Java that only pretends."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = home
        self.cache = home / "cache"
        folder = self.cache / "kafka-4.3.1"
        for made in (folder / "jars", home / "tools", home / "bin"):
            made.mkdir(parents=True)
        (folder / "complete").touch()
        (folder / "jars" / "kafka_2.13-4.3.1.jar").touch()
        self.clients = folder / "jars" / "kafka-clients-4.3.1.jar"
        self.sources(APIS)
        self.schemas(REQUEST, RESPONSE)
        self.java("")
        monkeypatch.setenv("JAVA_HOME", str(home))

    def java(self, then: str) -> None:
        java = self.home / "bin" / "java"
        java.write_text(FAKE_JAVA.format(home=self.home, then=then))
        java.chmod(0o755)

    def sources(self, apis: str) -> None:
        path = self.home / "tools" / "kafka_2.13-4.3.1-sources.jar"
        with zipfile.ZipFile(path, "w") as jar:
            jar.writestr("kafka/server/KafkaApis.scala", apis)

    def schemas(self, *schemas: dict[str, Any]) -> None:
        with zipfile.ZipFile(self.clients, "w") as jar:
            for schema in schemas:
                text = f"  // a comment\n{json.dumps(schema)}"
                jar.writestr(f"common/message/{schema['name']}.json", text)
            jar.writestr("common/message/FetchRequest.json", "// as it is\n{}")

    @property
    def calls(self) -> list[str]:
        file = self.home / "calls"
        found = file.read_text().split() if file.exists() else []
        return [".".join(name.split(".")[-2:]) for name in found]

    @property
    def left(self) -> set[str]:
        found = {p.name for p in (self.cache / "kafka-4.3.1-leader-only").iterdir()}
        return found - {"ivy.xml", "ivysettings.xml", "lock"}


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return Workshop(tmp_path, monkeypatch)


def test_the_patch_is_built_once_and_stands_before_kafkas_jars(workshop: Workshop) -> None:
    said: list[str] = []
    found = preview.resolve("4.3.1", workshop.cache, say=said.append)
    assert preview.resolve("4.3.1", workshop.cache, say=said.append) == found
    assert workshop.calls == ALL
    assert len(said) == 2
    first, rest = found.class_path.split(":")
    assert rest == f"{workshop.cache}/kafka-4.3.1/jars/*"
    with zipfile.ZipFile(first) as jar:
        assert len(jar.namelist()) == 2
    assert workshop.left == {"complete", "leader-only.jar"}


def test_another_recipe_is_another_patch(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    preview.resolve("4.3.1", workshop.cache)
    monkeypatch.setattr(preview, "_recipe", lambda: "changed")
    preview.resolve("4.3.1", workshop.cache)
    assert workshop.calls == ALL * 2


@pytest.mark.parametrize("version", ["3.9.2", "4.4.0"])
def test_another_version_is_refused_before_anything_is_fetched(
    version: str, workshop: Workshop
) -> None:
    with pytest.raises(DemoError, match=rf"4\.3\.1, not from {version}") as caught:
        preview.resolve(version, workshop.cache)
    assert caught.value.code == "PREVIEW_VERSION"
    assert workshop.calls == []


@pytest.mark.further
def test_ctrl_c_while_compiling_leaves_nothing_half_made(workshop: Workshop) -> None:
    # A terminal interrupts the compiler too; here the parent alone is, so it has to know its child.
    workshop.java(
        '[ "$main" != scala.tools.nsc.Main ] || { sleep 1; kill -INT $PPID; exec sleep 30; }'
    )
    with pytest.raises(KeyboardInterrupt):
        preview.resolve("4.3.1", workshop.cache)
    assert workshop.left == set()
    workshop.java("")
    assert preview.resolve("4.3.1", workshop.cache).patch is not None


def test_a_compiler_that_fails_is_quoted(workshop: Workshop) -> None:
    workshop.java('case "$main" in *batch.Main) echo no such class; exit 1;; esac')
    with pytest.raises(DemoError, match=r"batch\.Main says:\nno such class") as caught:
        preview.resolve("4.3.1", workshop.cache)
    assert caught.value.code == "PREVIEW_BUILD_FAILED"
    assert workshop.left == set()


def test_a_source_that_cannot_be_fetched_is_named(workshop: Workshop) -> None:
    workshop.java("echo 'module not found: generator'; exit 1")
    with pytest.raises(DemoError, match="Maven Central: module not found: generator") as caught:
        preview.resolve("4.3.1", workshop.cache)
    assert caught.value.code == "PREVIEW_UNAVAILABLE"


@pytest.mark.parametrize("apis", [APIS.replace("lowWatermark)", "low)"), APIS + APIS, ""])
def test_a_source_without_the_places_to_change_is_an_error(apis: str, workshop: Workshop) -> None:
    workshop.sources(apis)
    with pytest.raises(DemoError, match=r"KafkaApis\.scala has [02] times") as caught:
        preview.resolve("4.3.1", workshop.cache)
    assert caught.value.code == "PREVIEW_SOURCE_UNKNOWN"


def test_both_places_are_changed() -> None:
    changed = patch_apis(APIS)
    assert "LeaderOnlyPreview(replicaManager).deleteRecords(deleteRecordsRequest.data" in changed
    assert changed.endswith(
        "(partitionResult.lowWatermark).setLeaderLogStartOffset("
        "partitionResult.leaderLogStartOffset)"
    )


def test_version_3_has_its_two_fields_in_place(workshop: Workshop, tmp_path: Path) -> None:
    into = tmp_path / "schemas"
    patch_schemas(workshop.clients, into)
    request = json.loads((into / "DeleteRecordsRequest.json").read_text())
    response = json.loads((into / "DeleteRecordsResponse.json").read_text())
    for schema in (request, response):
        assert (schema["validVersions"], schema["flexibleVersions"]) == ("0-3", "2+")
    assert [f["name"] for f in request["fields"]] == ["Topics", "TimeoutMs", "LeaderOnly"]
    partition = response["fields"][0]["fields"][1]["fields"]
    names = ["LowWatermark", "LeaderLogStartOffset", "ErrorCode"]
    assert [field["name"] for field in partition] == names
    assert (into / "FetchRequest.json").read_text().startswith("// as it is")


def test_schemas_that_are_not_the_released_ones_are_an_error(
    workshop: Workshop, tmp_path: Path
) -> None:
    workshop.schemas({**REQUEST, "validVersions": "0-3"}, RESPONSE)
    with pytest.raises(DemoError, match="DeleteRecordsRequest has versions 0-3"):
        patch_schemas(workshop.clients, tmp_path / "one")
    workshop.schemas(REQUEST)
    with pytest.raises(DemoError, match=r"has no DeleteRecordsResponse\.json"):
        patch_schemas(workshop.clients, tmp_path / "two")
