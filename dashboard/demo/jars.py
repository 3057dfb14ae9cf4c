"""Which jars run a Kafka broker of a version: resolved once by the Ivy in pyspark, then cached."""

from __future__ import annotations

import fcntl
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dashboard.demo.processes import die_with_parent
from dashboard.errors import DemoError
from dashboard.java import find_command

RESOLVE_TIMEOUT_SECONDS = 600
_VERSION = re.compile(r"\d+\.\d+\.\d+")
# One logging backend that fits the slf4j 1.7 API of every version that we start.
_SLF4J_VERSION = "1.7.36"

_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="found"/>
  <resolvers>
    <chain name="found" returnFirst="true">
      <ibiblio name="central" m2compatible="true"{root}/>
    </chain>
  </resolvers>
</ivysettings>
"""
_IVY_MODULE = """<ivy-module version="2.0">
  <info organisation="lowwater" module="demo"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
{excludes}
  </dependencies>
</ivy-module>
"""
_WITHOUT_TOOLS_API = '    <exclude org="org.apache.kafka" module="kafka-tools-api"/>'


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """The jars of one Kafka version; `has_tools` says whether org.apache.kafka.tools.* is there."""

    version: str
    folder: Path
    java: str

    @property
    def class_path(self) -> str:
        return f"{self.folder}/*"

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
        with _locked(home / "lock"):
            if not _complete(home):
                say(f"fetching the jars of Kafka {version}: 50 MB, once")
                _download(jars, home, root)
    return jars


def _complete(home: Path) -> bool:
    return (home / "complete").is_file() and any((home / "jars").glob("kafka_2.13-*.jar"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(jars: KafkaJars, home: Path, root: str | None) -> None:
    partial = home / "jars.partial"
    for leftover in (partial, jars.folder):
        shutil.rmtree(leftover, ignore_errors=True)
    settings, module = home / "ivysettings.xml", home / "ivy.xml"
    settings.write_text(_IVY_SETTINGS.format(root=f' root="{root}"' if root else ""))
    # kafka-tools is missing for some versions: asked for with, then without.
    failure: str | None = None
    for with_tools in (True, False):
        module.write_text(_module(jars.version, with_tools=with_tools))
        failure = _run_ivy(jars.java, home, settings, module, partial)
        if failure is None:
            break
    if failure is not None:
        raise _cannot_be_had(jars.version, failure, root)
    partial.rename(jars.folder)
    (home / "complete").write_text("\n".join(sorted(p.name for p in jars.folder.iterdir())))


def _module(version: str, *, with_tools: bool) -> str:
    wanted = [("org.apache.kafka", "kafka_2.13", version, "true")]
    wanted.append(("org.slf4j", "slf4j-simple", _SLF4J_VERSION, "true"))
    if with_tools:
        # Its own dependencies are Connect and Jetty: none of the commands we run needs them.
        wanted.append(("org.apache.kafka", "kafka-tools", version, "false"))
    dependencies = "\n".join(
        f'    <dependency org="{org}" name="{name}" rev="{rev}" transitive="{deep}" '
        f'conf="default->default"/>'
        for org, name, rev, deep in wanted
    )
    excludes = "" if with_tools else _WITHOUT_TOOLS_API
    return _IVY_MODULE.format(dependencies=dependencies, excludes=excludes)


def _run_ivy(java: str, home: Path, settings: Path, module: Path, into: Path) -> str | None:
    """Ivy's log when it failed, None when every jar is there."""
    command = [
        java, "-XX:TieredStopAtLevel=1", "-cp", str(_ivy_jar()), "org.apache.ivy.Main", "-warn",
        "-settings", str(settings), "-ivy", str(module), "-cache", str(home.parent / "ivy"),
        "-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]",
        "-types", "jar", "bundle",
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=RESOLVE_TIMEOUT_SECONDS,
            check=False,
            preexec_fn=die_with_parent(),
        )
    except subprocess.TimeoutExpired as late:
        return str(late)
    return None if done.returncode == 0 else done.stdout + done.stderr


def _ivy_jar() -> Path:
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


def _cannot_be_had(version: str, log: str, root: str | None) -> DemoError:
    told = (line.strip() for line in log.splitlines())
    cause = next((t for t in told if "not found" in t or "Exception" in t), log.strip()[-200:])
    return DemoError(
        f"the jars of Kafka {version} could not be fetched from {root or 'Maven Central'}: {cause}",
        "Check the network and LOWWATER_KAFKA_VERSION (3.9.2, 4.3.1 and 4.4.0 are known to work).",
        code="KAFKA_JARS_UNAVAILABLE",
    )
