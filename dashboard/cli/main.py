"""The entry of `lowwater`: find the verb, run it, turn every end into its exit code."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from tempfile import gettempdir
from types import FrameType, ModuleType

from dashboard.cli.output import (
    INTERRUPTED,
    close_stdout,
    emit_error,
    end_stdout,
    prepare_streams,
    progress,
)
from dashboard.cli.parser import VERBS, add_summary, new_parser, parse
from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.core.processes import lean

# The verbs that neither are Spark's driver nor serve pages or reports.
_LEAN = frozenset(
    {
        "apply", "approvals", "archives", "collect", "delete-records", "findings", "followers",
        "idle", "inventory", "plan", "preview", "restore", "retention", "run", "runs", "triage",
    }
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; no exception leaves."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words  # also when the rest of the line cannot be parsed
    prepare_streams()
    try:
        with _sigterm_as_interrupt():
            return _run(words)
    except LowwaterError as error:
        emit_error(error, as_json=as_json)
        return error.exit_code
    except KeyboardInterrupt:
        emit_error(_interrupted(), as_json=as_json)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a looping verb went away
        close_stdout()
        return 0
    except Exception as error:
        emit_error(_internal(error), as_json=as_json)
        return LowwaterError.exit_code


def run() -> None:
    """The console script."""
    # Plans, snapshots and answers are millions of small values without cycles: looking through
    # them for garbage as often as Python does by itself doubles the time that they take.
    gc.set_threshold(100_000, 20, 100)
    if not _LEAN.intersection(sys.argv[1:2]):
        code = main()
        end_stdout()
        sys.exit(code)
    lean()
    code = main()
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):  # a reader that went away, a stream that is closed
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)  # to free each module and table one by one would take a tenth of a second


def _run(words: list[str]) -> int:
    parser, verbs = new_parser()
    modules = _modules(words[:1] if words and words[0] in VERBS else ())
    for verb in VERBS:  # their list needs no module: of all of them they take a third of a second
        if verb in modules:
            modules[verb].add_parser(verbs)
        else:
            add_summary(verbs, verb)
    if not words:
        progress(parser.format_help())
    try:
        args = parse(parser, verbs, words)
    except SystemExit as ending:  # --help and --version have printed their text
        return int(ending.code or 0)
    _respawn()
    code: int = modules[args.verb].run(args)
    return code


def _respawn() -> None:
    """Any call starts the workers again of runs that lost theirs; what fails here stops nobody."""
    from dashboard.cli.context import respawn
    from dashboard.settings.settings import load

    try:
        settings = load()
    except LowwaterError:  # the verb itself will say so, once
        return
    respawn(settings)


def _modules(verbs: Iterable[str] = VERBS) -> dict[str, ModuleType]:
    """The modules of these verbs, those of all by default."""
    rooms = {verb: f"dashboard.cli.{VERBS[verb].room}" for verb in verbs}
    return {v: import_module(f"{room}.{v.replace('-', '_')}") for v, room in rooms.items()}


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM ends a verb as Ctrl-C does. Signals can be set in the main thread alone."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted() -> LowwaterError:
    return LowwaterError("interrupted", "Run it again when you like.", code="INTERRUPTED")


def _internal(error: Exception) -> LowwaterError:
    """The error for what nobody foresaw: its traceback goes to a file, named in one line."""
    where = _write_traceback(error)
    return LowwaterError(
        f"unexpected {type(error).__name__}: {str(error)[:200]}",
        f"The traceback was written to {where}; please report it."
        if where
        else "Run it again; the traceback could not be written.",
    )


def _write_traceback(error: Exception) -> Path | None:
    text = "".join(traceback.format_exception(error))
    name = f"error-{utc_now():%Y%m%dT%H%M%S%f}.log"
    for folder in _log_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
            return folder / name
        except OSError:
            continue
    return None


def _log_folders() -> list[Path]:
    from dashboard.settings.settings import load

    try:
        state_dir = load().state_dir
        if state_dir.exists() and state_dir.stat().st_uid != os.geteuid():
            return [Path(gettempdir())]  # a folder of root's there its owner's workers cannot use
        return [state_dir / "logs", Path(gettempdir())]
    except Exception:  # what was unforeseen may have been the settings themselves
        return [Path(gettempdir())]


if __name__ == "__main__":
    run()
