"""A preview of Kafka 4.3.1 brokers with DeleteRecords v3: compiled here once, then cached.

No released broker has LeaderOnly (KIP-1343). Kafka's own sources and message generator, fetched
from Maven Central, get two fields and two changed calls; the classes go into one small jar that
stands before Kafka's own on the class path. Compilers come along: a JRE is enough.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dashboard.core.errors import DemoError
from dashboard.demo import processes
from dashboard.demo.kafka import jars
from dashboard.demo.kafka.jars import Artifact, KafkaJars

KAFKA_VERSION = "4.3.1"
STEP_TIMEOUT_SECONDS = 300
_OUR_CLASS = Path(__file__).with_name("LeaderOnlyPreview.scala")
_ARTIFACTS = (
    Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, sources=True),
    Artifact("org.apache.kafka", "generator", KAFKA_VERSION),
    Artifact("org.scala-lang", "scala-compiler", "2.13.18"),
    Artifact("org.scala-lang", "scala-reflect", "2.13.18"),
    Artifact("org.eclipse.jdt", "ecj", "3.42.0"),  # a JRE has no javac
)
_GENERATED = ("ApiMessageType.java", "DeleteRecords*.java")
_APIS = "kafka/server/KafkaApis.scala"


def resolve(
    version: str,
    cache_dir: Path,
    *,
    root: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> KafkaJars:
    """The jars of Kafka 4.3.1 with the preview's patch before them, made on first use.

    The first use fetches 22 MB and compiles for some ten seconds to a minute. Two starts at once
    wait for each other; an interrupted build is begun again. Raises DemoError for another version,
    or when something cannot be fetched, patched or compiled; SettingsError without Java.
    """
    if version != KAFKA_VERSION:
        raise DemoError(
            f"the leader-only preview is made from Kafka {KAFKA_VERSION}, not from {version}",
            f"Leave LOWWATER_KAFKA_VERSION out or set it to {KAFKA_VERSION}; "
            "without --leader-only-preview the demo runs other versions too.",
            code="PREVIEW_VERSION",
        )
    found = jars.resolve(version, cache_dir, root=root, say=say)
    home = cache_dir / f"kafka-{version}-leader-only"
    patch = home / "leader-only.jar"
    if not _complete(home, patch):
        home.mkdir(parents=True, exist_ok=True)
        with jars.locked(home / "lock"):
            if not _complete(home, patch):
                _build(found, home, patch, root, say)
    return dataclasses.replace(found, patch=patch)


def _recipe() -> str:
    """Names what the patch is made of: another recipe is another jar."""
    parts = [Path(__file__), _OUR_CLASS]
    return hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()


def _complete(home: Path, patch: Path) -> bool:
    marker = home / "complete"
    return patch.is_file() and marker.is_file() and marker.read_text() == _recipe()


def _build(
    found: KafkaJars, home: Path, patch: Path, root: str | None, say: Callable[[str], None]
) -> None:
    (home / "complete").unlink(missing_ok=True)
    work = home / "work"
    shutil.rmtree(work, ignore_errors=True)
    try:
        work.mkdir()
        say("fetching the sources of Kafka's broker and two compilers: 22 MB, once")
        tools = work / "tools"
        failure = jars.retrieve(found.java, home, _ARTIFACTS, tools, root=root)
        if failure is not None:
            raise _cannot_be_had(failure, root)
        say("compiling a broker with DeleteRecords v3: up to a minute, once")
        made = _compile(found, tools, work)
        made.replace(patch)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    (home / "complete").write_text(_recipe())


def _compile(found: KafkaJars, tools: Path, work: Path) -> Path:
    """Messages first, then the one Scala file that reads them: the jar of what came out."""
    classes = work / "classes"
    classes.mkdir()
    _compile_messages(found, tools, work, classes)
    _compile_apis(found, tools, work, classes)
    return _packed(classes, work / "leader-only.jar")


def _compile_messages(found: KafkaJars, tools: Path, work: Path, classes: Path) -> None:
    schemas, generated, kafka = work / "schemas", work / "generated", _kafka(found)
    patch_schemas(found.folder / f"kafka-clients-{found.version}.jar", schemas)
    generator = [*sorted(tools.glob("generator-*.jar")), *kafka]
    _java(
        found, generator, "org.apache.kafka.message.MessageGenerator",
        "-p", "org.apache.kafka.common.message", "-i", str(schemas), "-o", str(generated),
        "-t", "ApiMessageTypeGenerator", "-m", "MessageDataGenerator", "JsonConverterGenerator",
    )  # fmt: skip
    files = [str(file) for pattern in _GENERATED for file in sorted(generated.glob(pattern))]
    _java(
        found, sorted(tools.glob("ecj-*.jar")), "org.eclipse.jdt.internal.compiler.batch.Main",
        "-17", "-nowarn", "-proc:none", "-cp", _joined(kafka), "-d", str(classes), *files,
    )  # fmt: skip


def _compile_apis(found: KafkaJars, tools: Path, work: Path, classes: Path) -> None:
    patched = work / "KafkaApis.scala"
    with zipfile.ZipFile(tools / f"kafka_2.13-{found.version}-sources.jar") as sources:
        patched.write_text(patch_apis(sources.read(_APIS).decode()), encoding="utf-8")
    libraries = found.folder.glob("scala-library-*.jar")
    compiler = [*sorted(tools.glob("scala-*.jar")), *sorted(libraries)]
    _java(
        found, compiler, "scala.tools.nsc.Main", "-nowarn", "-encoding", "UTF-8",
        "-cp", _joined([classes, *_kafka(found)]), "-d", str(classes),
        str(patched), str(_OUR_CLASS),
    )  # fmt: skip


def _kafka(found: KafkaJars) -> list[Path]:
    return sorted(found.folder.glob("*.jar"))


def _java(found: KafkaJars, class_path: Iterable[Path], main: str, *words: str) -> None:
    flags = ("-Xmx768m", "-Xss8m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    command = [found.java, *flags, "-cp", _joined(class_path), main, *words]
    try:
        code, told = processes.run(command, STEP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise _not_compiled(main, f"no end after {late.timeout:.0f} s") from late
    if code != 0:
        raise _not_compiled(main, told.strip()[-600:])


def _joined(class_path: Iterable[Path]) -> str:
    return os.pathsep.join(str(path) for path in class_path)


def _packed(classes: Path, jar: Path) -> Path:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(classes.rglob("*.class")):
            packed.write(file, file.relative_to(classes))
    return jar


def _cannot_be_had(log: str, root: str | None) -> DemoError:
    return DemoError(
        f"what the leader-only preview is compiled from could not be fetched from "
        f"{root or 'Maven Central'}: {jars.cause(log)}",
        "Check the network and try again; without --leader-only-preview the demo needs none of it.",
        code="PREVIEW_UNAVAILABLE",
    )


def _not_compiled(main: str, lines: str) -> DemoError:
    return DemoError(
        f"the leader-only preview was not compiled; {main} says:\n{lines}",
        "Read the lines above; often memory or disk is short, or Java is older than 17.",
        code="PREVIEW_BUILD_FAILED",
    )


# What the preview broker changes in Kafka's sources: two message fields, two calls.

_FOLDER = "common/message/"
_RELEASED, _PREVIEW = "0-2", "0-3"
# Where KafkaApis hands a request on, and where it copies a partition's result into the answer.
_CALL = "replicaManager.deleteRecords("
_RESULT = ".setLowWatermark(partitionResult.lowWatermark)"


def patch_apis(source: str) -> str:
    """KafkaApis.scala that asks LeaderOnlyPreview and answers the leader's log start.

    Raises DemoError PREVIEW_SOURCE_UNKNOWN when a place to change is not there exactly once.
    """
    asked = "new LeaderOnlyPreview(replicaManager).deleteRecords("
    asked += "deleteRecordsRequest.data.leaderOnly, "
    told = f"{_RESULT}.setLeaderLogStartOffset(partitionResult.leaderLogStartOffset)"
    for anchor, instead in ((_CALL, asked), (_RESULT, told)):
        if source.count(anchor) != 1:
            raise _unknown(f"KafkaApis.scala has {source.count(anchor)} times {anchor!r}, not once")
        source = source.replace(anchor, instead)
    return source


def patch_schemas(clients_jar: Path, into: Path) -> None:
    """All message schemas of Kafka's clients jar, DeleteRecords with version 3.

    Raises DemoError PREVIEW_SOURCE_UNKNOWN when DeleteRecords is not as released.
    """
    changed: dict[str, Callable[[Any], None]] = {
        "DeleteRecordsRequest.json": _patch_request,
        "DeleteRecordsResponse.json": _patch_response,
    }
    into.mkdir()
    with zipfile.ZipFile(clients_jar) as jar:
        for name in jar.namelist():
            if name.startswith(_FOLDER) and name.endswith(".json"):
                file = name.removeprefix(_FOLDER)
                text = jar.read(name).decode()
                change = changed.pop(file, None)
                (into / file).write_text(_patched(text, change) if change else text)
    if changed:
        raise _unknown(f"the clients jar has no {min(changed)}")


def _patched(text: str, change: Callable[[Any], None]) -> str:
    comment = "//"
    lines = (line for line in text.splitlines() if not line.lstrip().startswith(comment))
    schema = json.loads("\n".join(lines))
    if schema["validVersions"] != _RELEASED:
        raise _unknown(f"{schema['name']} has versions {schema['validVersions']}")
    schema["validVersions"] = _PREVIEW
    change(schema)
    return json.dumps(schema)


def _patch_request(schema: Any) -> None:
    schema["fields"].append(
        {"name": "LeaderOnly", "type": "bool", "versions": "3+", "default": "false"}
    )


def _patch_response(schema: Any) -> None:
    partition = _fields(_fields(schema, "Topics"), "Partitions")["fields"]
    after = [field["name"] for field in partition].index("LowWatermark") + 1
    # Ignorable: answers of older versions leave it out.
    start = {"name": "LeaderLogStartOffset", "type": "int64", "versions": "3+", "default": "-1"}
    partition.insert(after, {**start, "ignorable": True})


def _fields(schema: Any, name: str) -> Any:
    return next(field for field in schema["fields"] if field["name"] == name)


def _unknown(what: str) -> DemoError:
    return DemoError(
        f"this source is not the one that the leader-only preview knows: {what}",
        "Clear the cache folder and try again, or run the demo without --leader-only-preview.",
        code="PREVIEW_SOURCE_UNKNOWN",
    )
