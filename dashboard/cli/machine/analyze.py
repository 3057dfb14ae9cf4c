"""`lowwater analyze`: runs the Spark job as a child process and relays its answer."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.errors import AnalysisError
from dashboard.core.processes import environment
from dashboard.core.visible import in_lines

# How long an interrupted child may take to tidy up before it is killed.
_GRACE_SECONDS = 10.0
# How long to wait for the last lines of its log: a grandchild may keep that pipe open.
_LAST_WORDS_SECONDS = 1.0


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "analyze",
        "turn the newest snapshot into findings (Spark)",
        description="Turns the newest snapshot into findings with Spark: what can be given back,\n"
        "who holds the rest. Needs Java 17 or newer.",
        examples=("lowwater analyze --data ./data", "lowwater analyze --full --json"),
    )
    parser.add_argument(
        "--full", action="store_true", help="read the whole history again, not what is new"
    )


def run(args: argparse.Namespace) -> int:
    """Run `python -m analytics` and print its object. Raises StoreError, AnalysisError."""
    settings, cluster = context.open_cluster(args)
    cluster.latest_snapshot()
    command = [
        sys.executable,
        "-m",
        "analytics",
        "--data",
        settings.data,
        "--cluster",
        cluster.cluster_id,
    ]
    answer, code = _answer(command + ["--full"] * args.full)
    if "error" in answer:
        raise _relayed(answer["error"], code)
    if code != 0 or "analysis_id" not in answer:
        raise _silent(code)
    output.emit(answer, _text(answer), as_json=args.json)
    return 0


def _answer(command: list[str]) -> tuple[dict[str, Any], int]:
    """The child's one JSON object ({} without one) and its exit code."""
    # A session of its own: Ctrl-C reaches the child once, from here, and never twice.
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
        text=True,
        errors="replace",
        start_new_session=True,
    )
    quiet = threading.Event()
    relay = threading.Thread(target=_relay, args=(child.stderr, quiet), daemon=True)
    relay.start()
    assert child.stdout is not None
    try:
        stdout = child.stdout.read()
        child.wait()
    except BaseException:
        quiet.set()  # Spark answers an interrupt with pages of traceback
        _end(child)
        raise
    finally:
        relay.join(_LAST_WORDS_SECONDS)
        child.stdout.close()
    return _last_object(stdout), child.returncode


def _relay(lines: IO[str] | None, quiet: threading.Event) -> None:
    """The child's log, line by line, until nobody wants it any more."""
    assert lines is not None
    with lines:
        for line in lines:
            if not quiet.is_set():
                output.progress(line.rstrip("\n"))


def _environment() -> dict[str, str]:
    """This environment, in which the child finds `analytics` beside this very package."""
    root = str(Path(__file__).parents[3])
    before = os.environ.get("PYTHONPATH")
    return environment(PYTHONPATH=f"{root}{os.pathsep}{before}" if before else root)


def _end(child: subprocess.Popen[str]) -> None:
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


def _text(answer: dict[str, Any]) -> str:
    tables = ", ".join(f"{name} {rows}" for name, rows in sorted(answer["tables"].items()))
    lines = [
        f"analysis {answer['analysis_id']} of snapshot {answer['snapshot_id']} "
        f"in {answer['seconds']:.1f} s",
        f"rows: {tables}",
    ]
    if not answer.get("published", True):
        lines.append(
            "not shown: the findings that are shown are of a newer snapshot, which is no longer "
            "kept or came meanwhile. Collect, then analyze again"
        )
    return in_lines(lines)
