"""Which jars run a Kafka broker of a version: resolved once by the Ivy in pyspark, then cached."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dashboard.core.errors import DemoError
from dashboard.core.java import find_command
from dashboard.demo.kafka import ivy
from dashboard.demo.kafka.ivy import Artifact

_VERSION = re.compile(r"\d+\.\d+\.\d+")
# One logging backend that fits the slf4j 1.7 API of every version that we start.
_SLF4J_VERSION = "1.7.36"
_TOOLS_API = ("org.apache.kafka", "kafka-tools-api")


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """The jars of one Kafka version; `has_tools` says whether org.apache.kafka.tools.* is there.

    `patch` is a jar whose classes go before Kafka's own; `class_data` is Java's archive of them
    all, which a Java that it does not fit leaves alone.
    """

    version: str
    folder: Path
    java: str
    patch: Path | None = None
    class_data: Path | None = None

    @property
    def class_path(self) -> str:
        first = f"{self.patch}{os.pathsep}" if self.patch else ""
        return f"{first}{self.folder}/*"

    @property
    def has_tools(self) -> bool:
        return (self.folder / f"kafka-tools-{self.version}.jar").exists()


def resolve(
    version: str,
    cache_dir: Path,
    *,
    root: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> KafkaJars:
    """The jars of a Kafka version, downloaded on first use (54 MB, about half a minute).

    Two starts at once wait for each other; an interrupted download is begun again. Raises
    SettingsError without Java, DemoError when the version cannot be had. `root` is the address of
    another Maven repository; Ivy asks Maven Central by itself.
    """
    java = find_command()
    if not _VERSION.fullmatch(version):
        raise DemoError(
            f"'{version}' is no Kafka version",
            "Set LOWWATER_KAFKA_VERSION to one such as 4.3.1, or leave it out.",
            code="KAFKA_VERSION_INVALID",
        )
    home = cache_dir / f"kafka-{version}"
    jars = KafkaJars(version, home / "jars", java)
    if not _complete(home):
        home.mkdir(parents=True, exist_ok=True)
        with locked(home / "lock"):
            if not _complete(home):
                say(f"fetching the jars of Kafka {version}: 50 MB, once")
                _download(jars, home, root)
    return jars


def _complete(home: Path) -> bool:
    return (home / "complete").is_file() and any((home / "jars").glob("kafka_2.13-*.jar"))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """A block that one process at a time enters; the others wait."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(jars: KafkaJars, home: Path, root: str | None) -> None:
    partial = home / "jars.partial"
    for leftover in (partial, jars.folder):
        shutil.rmtree(leftover, ignore_errors=True)
    wanted = [
        Artifact("org.apache.kafka", "kafka_2.13", jars.version, deep=True),
        Artifact("org.slf4j", "slf4j-simple", _SLF4J_VERSION, deep=True),
    ]
    # Its own dependencies are Connect and Jetty: none of the commands we run needs them.
    tools = Artifact("org.apache.kafka", "kafka-tools", jars.version)
    # kafka-tools is missing for some versions: asked for with, then without.
    failure = ivy.retrieve(jars.java, home, [*wanted, tools], partial, root=root)
    if failure is not None:
        failure = ivy.retrieve(jars.java, home, wanted, partial, without=[_TOOLS_API], root=root)
    if failure is not None:
        raise _cannot_be_had(jars.version, failure, root)
    partial.rename(jars.folder)
    (home / "complete").write_text("\n".join(sorted(p.name for p in jars.folder.iterdir())))


def _cannot_be_had(version: str, log: str, root: str | None) -> DemoError:
    return DemoError(
        f"the jars of Kafka {version} could not be fetched from {root or 'Maven Central'}: "
        f"{ivy.cause(log)}",
        "Check the network and LOWWATER_KAFKA_VERSION (3.9.2, 4.3.1 and 4.4.0 are known to work).",
        code="KAFKA_JARS_UNAVAILABLE",
    )
