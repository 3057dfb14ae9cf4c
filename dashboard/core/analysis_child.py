"""Runs a module of ours as a child process, and gives its answer: `python -m analytics`, so that
no JVM is ours, or what would fill the page server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from dashboard.core.errors import AnalysisError
from dashboard.core.processes import environment

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
