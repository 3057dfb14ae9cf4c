"""Finds the Java that Spark and Kafka's brokers run on: JAVA_HOME's first, then the PATH's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dashboard.core.errors import SettingsError

LEAST_JAVA = 17  # Spark 4's and Kafka 4's minimum; a later long-term release works too
# 'openjdk version "17.0.15" 2025-04-15'; Java 8 calls itself 1.8.0.
_VERSION = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')
_NEXT = (
    f"Install a JRE of version {LEAST_JAVA} or newer (Debian: apt-get install "
    "default-jre-headless), or let JAVA_HOME name it."
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that is new enough: its command, major version and full version text."""

    command: str
    major: int
    version: str


def find_command(environ: Mapping[str, str] = os.environ) -> str:
    """The path of the `java` program. Raises SettingsError JAVA_MISSING."""
    home = environ.get("JAVA_HOME")
    wanted = str(Path(home) / "bin" / "java") if home else "java"
    found = shutil.which(wanted, path=environ.get("PATH"))
    if found is None:
        where = f"{wanted} (JAVA_HOME)" if home else "java on the path"
        raise SettingsError(f"there is no {where}", _NEXT, code="JAVA_MISSING")
    return found


def find_java(
    environ: Mapping[str, str] = os.environ, ask: Callable[[str], str] | None = None
) -> Java:
    """The Java to use. Raises SettingsError JAVA_MISSING, JAVA_BROKEN or JAVA_TOO_OLD.

    `ask` gives what `COMMAND -version` prints, for tests.
    """
    command = find_command(environ)
    answer = (ask or _ask)(command)
    match = _VERSION.search(answer)
    if match is None:
        raise SettingsError(f"{command} -version says: {answer[:120]!r}", _NEXT, code="JAVA_BROKEN")
    if int(match.group(2)) < LEAST_JAVA:
        raise SettingsError(
            f"{command} is version {match.group(2)}, older than {LEAST_JAVA}",
            _NEXT,
            code="JAVA_TOO_OLD",
        )
    return Java(command, int(match.group(2)), match.group(1))


def _ask(command: str) -> str:
    try:
        done = subprocess.run(
            [command, "-version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr + done.stdout
