"""What processes that we start share: the environment, the wish to end; and running a module of
ours as a child process that gives an answer: `python -m analytics`, so that no JVM is ours, or what
would fill the page server.

Whoever may look into /proc, and every crash report, reads a process' environment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

from dashboard.core.errors import AnalysisError, SettingsError
from dashboard.core.system import LIBC

METRICS_TOKEN = "LOWWATER_METRICS_TOKEN"
# For children with many threads that run for weeks. glibc gives each thread an arena of its own and
# hands little of it back, so memory would follow the largest moment of each thread, all added up.
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}
# For one that reads large tables now and then: what it took for a moment goes back to the system at
# once. Arrow's own pool keeps that for each of its threads, and glibc, once anything large was
# freed, takes the next ones of that size from what it keeps.
GIVES_BACK = {
    **FEW_ARENAS, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_MMAP_THRESHOLD_": "131072",
}  # fmt: skip


def environment(**changes: str) -> dict[str, str]:
    """Our variables without the bearer token of Prometheus, then `changes`."""
    return {name: value for name, value in os.environ.items() if name != METRICS_TOKEN} | changes


def lean() -> None:
    """Keep out of this process, which makes no frames and solves no equations, what would take up
    its start: pandas counts as not installed, and numpy's OpenBLAS starts no threads. First of all.

    Arrow imports pandas for the first list that becomes an array, to see whether the list is a
    series: a third of a second and 50 MB of each command.
    """
    sys.meta_path.insert(0, _NotHere("pandas"))
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when numpy is loaded


@dataclass(frozen=True, slots=True)
class _NotHere:
    """A finder of modules by which one of them is not there."""

    module: str

    def find_spec(self, name: str, *_: object) -> None:
        if name == self.module:
            raise ModuleNotFoundError(f"this process does without {name}", name=name)


_PR_SET_PDEATHSIG = 1


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None] | None:
    """What a child runs before its program starts, so that it gets the signal when we die (Linux).

    Linux sends it when the *thread* that forked ends.
    """
    if LIBC is None:
        return None
    libc, parent = LIBC, os.getpid()

    def before_exec() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, number)
        # The parent may have died between fork and prctl: then no signal would ever come.
        if os.getppid() != parent:
            os._exit(1)

    return before_exec


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


# How long an interrupted child may take to tidy up before it is killed.
_GRACE_SECONDS = 10.0
# How long to wait for the last lines of its log: a grandchild may keep that pipe open.
_LAST_WORDS_SECONDS = 1.0


def words_of(root: str, cluster_id: str, settings: Path | None) -> list[str]:
    """The flags of a cluster in a store, and of the settings file that holds for it."""
    words = ["--data", root, "--cluster", cluster_id]
    return words if settings is None else [*words, "--settings", str(settings)]


def answered(
    words: Sequence[str],
    log: Callable[[str], None],
    key: str,
    given: bytes = b"",
    *,
    module: str = "analytics",
) -> dict[str, Any]:
    """The one JSON object that it prints, which has this key; `given`: what it reads.

    `log` gets each line of its log. Raises AnalysisError as the child says, or where it says
    nothing.
    """
    answer, code = _answer([sys.executable, "-m", module, *words], log, given)
    if "error" in answer:
        raise _relayed(answer["error"], code)
    if code != 0 or key not in answer:
        raise _silent(code)
    return answer


def _answer(
    command: Sequence[str], log: Callable[[str], None], given: bytes
) -> tuple[dict[str, Any], int]:
    """The child's one JSON object ({} without one) and its exit code."""
    # A session of its own: Ctrl-C reaches the child once, from here, and never twice.
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        start_new_session=True,
    )
    quiet = threading.Event()
    relay = threading.Thread(target=_relay, args=(child.stderr, log, quiet), daemon=True)
    relay.start()
    assert child.stdin is not None and child.stdout is not None
    try:
        with suppress(BrokenPipeError), child.stdin:  # it ended before: its answer says why
            child.stdin.write(given)
        stdout = child.stdout.read()
        child.wait()
    except BaseException:
        quiet.set()  # Spark answers an interrupt with pages of traceback
        _end(child)
        raise
    finally:
        relay.join(_LAST_WORDS_SECONDS)
        child.stdout.close()
    return _last_object(stdout.decode(errors="replace")), child.returncode


def _relay(lines: IO[bytes] | None, log: Callable[[str], None], quiet: threading.Event) -> None:
    """The child's log, line by line, until nobody wants it any more."""
    assert lines is not None
    with lines:
        for line in lines:
            if not quiet.is_set():
                log(line.decode(errors="replace").rstrip("\r\n"))


def _environment() -> dict[str, str]:
    """This environment, in which the child finds `analytics` beside this very package."""
    root = str(Path(__file__).parents[2])
    before = os.environ.get("PYTHONPATH")
    return environment(PYTHONPATH=f"{root}{os.pathsep}{before}" if before else root)


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_SECONDS)
            return


def _last_object(stdout: str) -> dict[str, Any]:
    for line in reversed(stdout.splitlines()):
        with suppress(ValueError):
            value = json.loads(line)
            if isinstance(value, dict):
                return value
    return {}


def _relayed(error: dict[str, str], code: int) -> AnalysisError:
    relayed = AnalysisError(
        error.get("message", "the analysis failed"),
        error.get("next", "See the log above."),
        code=error.get("code"),
    )
    relayed.exit_code = code or AnalysisError.exit_code
    return relayed


def _silent(code: int) -> AnalysisError:
    ending = f"by signal {-code}" if code < 0 else f"with code {code}"
    return AnalysisError(
        f"the analysis ended {ending} and gave no result",
        "See its log on stderr above; lowwater doctor checks Java and Spark.",
    )
