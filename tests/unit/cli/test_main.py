"""Every end of a command line: its exit code, and one error object or two lines."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from dashboard.cli import main as entry
from dashboard.cli import parser
from dashboard.cli.main import main
from dashboard.cli.parser import VERBS, Verbs, add_verb
from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError, RefusedError
from dashboard.purge.jobs import queue
from dashboard.purge.journal.journal import open_default
from dashboard.settings.settings import load
from tests.support import sample_store
from tests.unit.cli.plans import a_plan


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], None]:
    """Put one verb `act` in place of all others, which does what the test says."""

    def place(act: Callable[[], int]) -> None:
        def add_parser(verbs: Verbs) -> None:
            add_verb(verbs, "act")

        def run(args: argparse.Namespace) -> int:
            return act()

        module = SimpleNamespace(add_parser=add_parser, run=run)
        monkeypatch.setattr(parser, "VERBS", {"act": parser.Verb("machine", "acts")})
        monkeypatch.setattr(entry, "VERBS", parser.VERBS)
        monkeypatch.setattr(entry, "_modules", lambda *_: {"act": module})

    return place


def _raise(error: BaseException) -> Callable[[], int]:
    def act() -> int:
        raise error

    return act


def _error(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found = json.loads(out)
    assert set(found) == {"error"}
    assert set(found["error"]) == {"code", "message", "next"}
    error: dict[str, str] = found["error"]
    return error


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["--json"], "FLAG_BEFORE_VERB", "--json"),
        (["--json", "collect"], "FLAG_BEFORE_VERB", "--json"),
        (["--data", "x", "findings", "holds", "--json"], "FLAG_BEFORE_VERB", "--data"),
        (["findngs", "--json"], "VERB_UNKNOWN", "findngs"),
        (["findings", "--json"], "USAGE", "TABLE"),
        (["findings", "holds", "--topik", "t", "--json"], "USAGE", "--topik"),
        (["findings", "holds", "--lim", "3", "--json"], "USAGE", "--lim"),
        (["findings", "holds", "--limit", "many", "--json"], "USAGE", "--limit"),
    ],
)
def test_wrong_usage_is_exit_1_with_a_named_error(
    words: list[str], code: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    error = _error(capsys)
    assert error["code"] == code
    assert named in error["message"]


def test_a_flag_before_the_verb_is_told_where_flags_stand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--json", "collect"]) == 1
    assert "after the verb" in _error(capsys)["next"]


def test_a_mistyped_verb_or_flag_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["analyse", "--json"])
    assert "Did you mean analyze?" in _error(capsys)["next"]
    main(["findings", "holds", "--topics=t", "--json"])
    assert "Did you mean --topic?" in _error(capsys)["next"]


def test_no_verb_prints_the_help_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "examples:" in captured.err
    assert "no verb" in captured.err


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["findings", "--help"], ["--version"]])
def test_help_and_version_are_exit_0(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert "lowwater" in capsys.readouterr().out


def test_the_list_of_verbs_waits_for_no_module_of_a_verb(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "import_module", lambda name: pytest.fail(f"{name} was loaded"))
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"    {verb}" in out for verb in parser.VERBS)
    assert main(["colect"]) == 1


def test_every_verb_has_help_with_its_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for name in entry._modules():
        assert main([name, "--help"]) == 0
        out = capsys.readouterr().out
        assert "--json" in out
        assert "exit codes:" in out


def test_an_error_for_people_is_two_lines_on_stderr(
    verb: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    verb(_raise(RefusedError("topic t is compacted", "Leave it out.")))
    assert main(["act"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: topic t is compacted\nnext: Leave it out.\n"


def test_the_codes_of_the_tree_become_exit_codes(
    verb: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in LowwaterError.__subclasses__():
        error = kind.__new__(kind)
        LowwaterError.__init__(error, "m", "n")
        verb(_raise(error))
        assert main(["act", "--json"]) == kind.exit_code
        assert _error(capsys)["code"] == kind.default_code


def test_the_unexpected_is_70_and_names_its_traceback_file(
    verb: Callable[..., None], capsys: pytest.CaptureFixture[str], alone: Path
) -> None:
    verb(_raise(ZeroDivisionError("by zero")))
    assert main(["act", "--json"]) == 70
    error = _error(capsys)
    assert error["code"] == "INTERNAL"
    (log,) = (alone / "state" / "logs").iterdir()
    assert str(log) in error["next"]
    assert "ZeroDivisionError: by zero" in log.read_text()


def test_the_unexpected_is_told_even_if_no_log_can_be_written(
    verb: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    alone: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (alone / "state").write_text("a file where the folder should be")
    monkeypatch.setattr(entry, "gettempdir", lambda: str(alone / "state"))
    verb(_raise(ZeroDivisionError("by zero")))
    assert main(["act"]) == 70
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "by zero" in err


def test_a_broken_settings_file_is_exit_1(capsys: pytest.CaptureFixture[str], alone: Path) -> None:
    (alone / "lowwater.toml").write_text("dta = 'x'")
    assert main(["findings", "holds", "--json"]) == 1
    assert _error(capsys)["code"] == "SETTINGS_KEY_UNKNOWN"


def test_ctrl_c_is_130(verb: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    verb(_raise(KeyboardInterrupt()))
    assert main(["act", "--json"]) == 130
    assert _error(capsys)["code"] == "INTERRUPTED"


def test_sigterm_ends_a_verb_as_ctrl_c_does(
    verb: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def act() -> int:
        signal.raise_signal(signal.SIGTERM)
        time.sleep(5)
        return 0

    before = signal.getsignal(signal.SIGTERM)
    verb(act)
    assert main(["act", "--json"]) == 130
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_command_runs_in_any_thread(verb: Callable[..., None]) -> None:
    codes: list[int] = []
    verb(lambda: 0)
    thread = threading.Thread(target=lambda: codes.append(main(["act"])))
    thread.start()
    thread.join()
    assert codes == [0]


def _lowwater(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dashboard.cli.main", *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={"PYTHONPATH": str(Path(entry.__file__).parents[2]), "PATH": "/usr/bin:/bin"},
        cwd=folder,
    )


def test_the_module_is_a_command_with_exit_codes(alone: Path) -> None:
    ended = _lowwater("--json", "collect", folder=alone)
    assert ended.returncode == 1
    assert json.loads(ended.stdout)["error"]["code"] == "FLAG_BEFORE_VERB"
    assert ended.stderr == ""


def test_text_that_has_no_utf_8_form_leaves_valid_json(alone: Path) -> None:
    ended = _lowwater("findings", "t\udcff", "--json", folder=alone)
    assert ended.returncode == 1
    assert "UTF-8" in json.loads(ended.stdout)["error"]["message"]


def test_help_needs_no_heavy_import() -> None:
    script = (
        "import sys; from dashboard.cli.main import main; main(['--help']);"
        "print([m for m in ('pyarrow','kafka','confluent_kafka','streamlit','pyspark','pandas')"
        " if m in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=240
    )
    assert ended.stderr.strip() == "[]"


def test_a_verb_that_reads_tables_imports_no_pandas_and_no_queue_without_a_run(alone: Path) -> None:
    sample_store.write(alone / "d")
    open_default(load()).close()
    command = [sys.executable, "-X", "importtime", "-m", "dashboard.cli.main"]
    words = ["findings", "reclaimable", "--topic", "orders", "--data", str(alone / "d")]
    ended = subprocess.run(
        [*command, *words], capture_output=True, text=True, check=True, timeout=240,
        env={**os.environ, "LOWWATER_STATE_DIR": str(load().state_dir)},
    )  # fmt: skip
    told = (line.rpartition("|") for line in ended.stderr.splitlines() if "import time:" in line)
    loaded = {name.strip() for _, _, name in told}
    assert loaded & {"pandas.core", "pyarrow", "dashboard.purge.jobs.queue"} == {"pyarrow"}
    assert "orders" in ended.stdout  # all of it, though the process ends without tidying up


def test_verbs_of_lean_processes_are_verbs() -> None:
    assert entry._LEAN.issubset(VERBS)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="Linux tells threads there")
def test_numpy_starts_no_threads_in_a_lean_process() -> None:
    script = (
        "from dashboard.core.processes import lean; lean(); import numpy, os;"
        " print(len(os.listdir('/proc/self/task')))"
    )
    environ = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=240,
        env=environ,
    )  # fmt: skip
    assert ended.stdout.strip() == "1"


def test_a_reader_that_goes_away_ends_no_verb_with_a_traceback(alone: Path) -> None:
    sample_store.write(alone / "d")
    line = f"{sys.executable} -m dashboard.cli.main findings holds --data d | head -c 1"
    ended = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=True, timeout=240, cwd=alone,
        env={**os.environ, "PYTHONPATH": str(Path(entry.__file__).parents[2])},
    )  # fmt: skip
    assert (len(ended.stdout), ended.stderr) == (1, "")


def test_any_call_starts_again_the_workers_of_runs_that_lost_theirs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, alone: Path
) -> None:
    spawned: list[str] = []
    monkeypatch.setattr(queue, "spawn", lambda _, run_id, **__: spawned.append(run_id))
    journal = open_default(load())
    run_id = queue.enqueue(
        load(), journal, a_plan(hours_ago=1), mode="wait-all", confirm="purge orders on prod",
        sha256=None, who="me", token="t", now=utc_now() - timedelta(minutes=5),
    )  # fmt: skip
    journal.close()
    spawned.clear()
    assert main(["findings", "holds", "--data", "none", "--json"]) == 1
    assert spawned == [run_id]
    assert f"run {run_id} had no worker" in capsys.readouterr().err


def test_a_journal_that_cannot_be_read_does_not_stop_other_verbs(
    capsys: pytest.CaptureFixture[str], alone: Path
) -> None:
    (alone / "state").mkdir()
    (alone / "state" / "journal.sqlite").write_text("no database at all, but some text")
    sample_store.write(alone / "d")
    assert main(["findings", "holds", "--data", "d", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["rows"]
    assert "could not be looked for" in captured.err
    assert main(["runs", "--json"]) == 70
    assert "journal" in json.loads(capsys.readouterr().out)["error"]["code"].lower()
