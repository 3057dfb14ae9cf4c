"""Which jars run a Kafka broker of a version, and tell its metrics: resolved once by the Ivy in
pyspark, then cached.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dashboard.broker_metrics.exposition import RULES
from dashboard.core.errors import DemoError
from dashboard.core.locks import wait_for
from dashboard.core.processes import find_command
from dashboard.demo import processes

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
        wait_for(file.fileno())
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
    failure = retrieve(jars.java, home, [*wanted, tools], partial, root=root)
    if failure is not None:
        failure = retrieve(jars.java, home, wanted, partial, without=[_TOOLS_API], root=root)
    if failure is not None:
        raise _cannot_be_had(jars.version, failure, root)
    partial.rename(jars.folder)
    (home / "complete").write_text("\n".join(sorted(p.name for p in jars.folder.iterdir())))


def _cannot_be_had(version: str, log: str, root: str | None) -> DemoError:
    return DemoError(
        f"the jars of Kafka {version} could not be fetched from {root or 'Maven Central'}: "
        f"{cause(log)}",
        "Check the network and LOWWATER_KAFKA_VERSION (3.9.2, 4.3.1 and 4.4.0 are known to work).",
        code="KAFKA_JARS_UNAVAILABLE",
    )


# Fetches jars from Maven Central by the Ivy that comes with pyspark: no Maven is needed.

TIMEOUT_SECONDS = 600

_SETTINGS = """<ivysettings>
  <settings defaultResolver="found"/>
  <resolvers>
    <chain name="found" returnFirst="true">
      <ibiblio name="central" m2compatible="true"{root}/>
    </chain>
  </resolvers>
</ivysettings>
"""
_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="lowwater" module="demo"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{lines}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One jar to fetch: with what it depends on (`deep`), or its sources instead of classes."""

    org: str
    name: str
    version: str
    deep: bool = False
    sources: bool = False

    def to_xml(self) -> str:
        """Its line in an ivy.xml."""
        deep = str(self.deep).lower()
        head = f'    <dependency org="{self.org}" name="{self.name}" rev="{self.version}"'
        head += f' transitive="{deep}" conf="default->default"'
        if not self.sources:
            return f"{head}/>"
        kind = 'type="source" ext="jar" m:classifier="sources"'
        return f'{head}><artifact name="{self.name}" {kind}/></dependency>'


def retrieve(
    java: str,
    home: Path,
    artifacts: Iterable[Artifact],
    into: Path,
    *,
    without: Iterable[tuple[str, str]] = (),
    root: str | None = None,
) -> str | None:
    """Put the jars into a folder as NAME-VERSION[-CLASSIFIER].jar; Ivy's log when it failed.

    `home` keeps Ivy's two files, its parent Ivy's own cache; `without` names (org, name) of what
    not to fetch; `root` is the address of another Maven repository. Raises DemoError IVY_MISSING.
    """
    settings, module = home / "ivysettings.xml", home / "ivy.xml"
    settings.write_text(_SETTINGS.format(root=f' root="{root}"' if root else ""))
    lines = [artifact.to_xml() for artifact in artifacts]
    lines += [f'    <exclude org="{org}" module="{name}"/>' for org, name in without]
    module.write_text(_MODULE.format(lines="\n".join(lines)))
    command = [
        java, "-XX:TieredStopAtLevel=1", "-cp", str(_jar()), "org.apache.ivy.Main", "-warn",
        "-settings", str(settings), "-ivy", str(module), "-cache", str(home.parent / "ivy"),
        "-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]",
        "-types", "jar", "bundle", "source",
    ]  # fmt: skip
    try:
        code, log = processes.run(command, TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as late:
        return str(late)
    return None if code == 0 else log


def cause(log: str) -> str:
    """The line of Ivy's log that says what went wrong."""
    told = (line.strip() for line in log.splitlines())
    found = (line for line in told if "not found" in line or "Exception" in line)
    return next(found, log.strip()[-200:])


def _jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [jar for folder in folders for jar in Path(folder).glob("jars/ivy-*.jar")]
    if not found:
        raise DemoError(
            "pyspark's Ivy was not found, and with it nothing that fetches Kafka's jars",
            "Install Lowwater's requirements again: pip install -r requirements.txt",
            code="IVY_MISSING",
        )
    return found[0]


# Brokers' own metrics in the demo: the JMX exporter's Java agent, from Maven Central.

VERSION = "1.0.1"
_AGENT = "jmx_prometheus_javaagent"


def resolve_exporter(java: str, cache_dir: Path) -> Path:
    """The agent's jar, half a megabyte, downloaded on first use into `cache_dir`.

    Raises DemoError EXPORTER_UNAVAILABLE.
    """
    home = cache_dir / f"jmx-exporter-{VERSION}"
    jar = home / "jars" / f"{_AGENT}-{VERSION}.jar"
    if jar.is_file():
        return jar
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / "lock"):
        if not jar.is_file():
            wanted = [Artifact("io.prometheus.jmx", _AGENT, VERSION)]
            partial = home / "partial"
            failure = retrieve(java, home, wanted, partial)
            if failure is not None:
                raise DemoError(
                    f"the JMX exporter {VERSION} could not be fetched from Maven Central: "
                    f"{cause(failure)}",
                    "Check the network; without it brokers' own metrics are not known.",
                    code="EXPORTER_UNAVAILABLE",
                )
            jar.parent.mkdir(exist_ok=True)
            (partial / jar.name).replace(jar)
    return jar


def address(port: int) -> str:
    """Where a broker that runs with `flags` shows its metrics."""
    return f"http://127.0.0.1:{port}/metrics"


def flags(agent: Path, port: int, folder: Path) -> list[str]:
    """What a broker's Java needs to show the short list of beans on a loopback port."""
    rules = folder / "exporter.yaml"
    rules.write_text(RULES, encoding="utf-8")
    return [f"-javaagent:{agent}=127.0.0.1:{port}:{rules}"]
