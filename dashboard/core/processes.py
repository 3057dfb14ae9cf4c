"""What processes that we start share: the environment, ours but for the secret that only collecting
needs; the wish to end, as a signal handler may tell it; and the Java that Spark and Kafka's brokers
run on: JAVA_HOME's first, then the PATH's.

Whoever may look into /proc, and every crash report, reads a process' environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from dashboard.core.errors import SettingsError

METRICS_TOKEN = "LOWWATER_METRICS_TOKEN"
# For children with many threads that run for weeks. glibc gives each thread an arena of its own and
# hands little of it back, so memory would follow the largest moment of each thread, all added up.
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}


def environment(**changes: str) -> dict[str, str]:
    """Our variables without the bearer token of Prometheus, then `changes`."""
    return {name: value for name, value in os.environ.items() if name != METRICS_TOKEN} | changes


# A wish to end that a signal handler may tell at any moment.
#
# `threading.Event` takes a lock to be set, and to begin to wait: a handler that runs in the thread
# which has just taken it waits for itself, and no further signal ends the process then.
# `SimpleQueue` alone is made to be called so (its `put` is reentrant, says the library reference).


class Stop:
    """Like an Event that nobody clears; one thread waits."""

    def __init__(self) -> None:
        self._told = False
        self._calls: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """End what waits, now and from now on."""
        self._told = True
        self._calls.put(None)

    def is_set(self) -> bool:
        """Whether somebody told it."""
        return self._told

    def wait(self, seconds: float) -> bool:
        """Until it is told, for at most so long; whether it was."""
        if not self._told:
            with suppress(Empty):
                self._calls.get(timeout=max(seconds, 0.0))
        return self._told


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
