"""Fetches jars from Maven Central by the Ivy that comes with pyspark: no Maven is needed."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dashboard.core.errors import DemoError
from dashboard.demo import processes

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
