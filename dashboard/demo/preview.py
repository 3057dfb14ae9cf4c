"""A preview of Kafka 4.3.1 brokers with DeleteRecords v3: compiled here once, then cached.

No released broker has LeaderOnly (KIP-1343). Kafka's own sources and message generator, fetched
from Maven Central, get two fields and two changed calls; the classes go into one small jar that
stands before Kafka's own on the class path. Compilers come along: a JRE is enough.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import subprocess
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from dashboard.demo import ivy, jars, processes
from dashboard.demo.ivy import Artifact
from dashboard.demo.jars import KafkaJars
from dashboard.demo.preview_sources import patch_apis, patch_schemas
from dashboard.errors import DemoError

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
    here = Path(__file__)
    parts = [here, here.with_name("preview_sources.py"), _OUR_CLASS]
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
        failure = ivy.retrieve(found.java, home, _ARTIFACTS, tools, root=root)
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
        f"{root or 'Maven Central'}: {ivy.cause(log)}",
        "Check the network and try again; without --leader-only-preview the demo needs none of it.",
        code="PREVIEW_UNAVAILABLE",
    )


def _not_compiled(main: str, lines: str) -> DemoError:
    return DemoError(
        f"the leader-only preview was not compiled; {main} says:\n{lines}",
        "Read the lines above; often memory or disk is short, or Java is older than 17.",
        code="PREVIEW_BUILD_FAILED",
    )
