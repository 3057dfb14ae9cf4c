"""What is printed: exact JSON for programs, aligned text for people."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from dashboard.cli.output import cell, emit, emit_line, progress, size, table, to_json
from dashboard.core.visible import in_lines


def test_json_has_times_with_z_paths_as_text_and_any_script() -> None:
    value = {"at": datetime(2026, 3, 1, tzinfo=UTC), "path": Path("/d"), "topic": "größe"}
    assert to_json(value) == '{"at": "2026-03-01T00:00:00.000Z", "path": "/d", "topic": "größe"}'


def test_a_full_disk_ends_no_loop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever makes room on disks is not to end where its own log finds none."""
    for _ in range(2):
        full = os.open("/dev/full", os.O_WRONLY)
        monkeypatch.setattr(sys, "stdout", os.fdopen(full, "w", closefd=False))
        emit_line({"event": "cycle"}, "", as_json=True)
        with suppress(OSError):
            sys.stdout.close()
        os.close(full)
    assert capsys.readouterr().err.count("could not be written: No space left") == 2
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=_no_space, flush=_no_space))
    progress("policies of prod")


def test_what_a_loop_could_not_write_changes_no_exit_code() -> None:
    program = (
        "import sys; from dashboard.cli.output import emit_line, end_stdout;"
        "emit_line({'n': 1}, '', as_json=True); end_stdout(); sys.exit(130)"
    )
    # Images like to set it, and then Python keeps nothing back that it could fail to write later.
    environ = {name: word for name, word in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], check=False, stdout=full, env=environ
        )
    assert done.returncode == 130


def _no_space(_: object = None) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_large_numbers_keep_every_digit() -> None:
    assert json.loads(to_json({"n": 2**62 + 1}))["n"] == 2**62 + 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_json_cannot_say_is_an_error_not_a_guess(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        to_json({"value": value})


def test_a_table_is_aligned_and_numbers_stand_right() -> None:
    rows = [
        {"topic": "orders", "n": 5, "bytes": "1.0 KiB", "none": None},
        {"topic": "a", "n": 1200, "bytes": "17 B", "none": None},
    ]
    assert table(rows, ["topic", "n", "bytes", "none"]).splitlines() == [
        "topic      n    bytes  none",
        "orders     5  1.0 KiB  -",
        "a       1200     17 B  -",
    ]


def test_cells_of_each_kind_read_well() -> None:
    assert cell(None) == "-"
    assert cell(False) == "no"
    assert cell([]) == "-"
    assert cell([{"name": "under-replicated", "reason": "x"}, {"name": "b"}]) == (
        "under-replicated,b"
    )


def test_no_group_id_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    odd = "a\x1b[2J\nb\rc\u202ed\x9b<b>ü💧"
    shown = "a\\x1b[2J\\nb\\rc\\u202ed\\x9b<b>ü💧"
    assert cell(odd) == shown
    assert cell([odd, {"name": odd}]) == f"{shown},{shown}"
    assert table([{"group_id": odd}], ["group_id"]).splitlines()[1:] == [shown]
    emit({"group_id": odd}, f"group {odd}", as_json=False)
    emit({"group_id": odd}, in_lines([f"group {odd}", "next"]), as_json=False)
    progress(odd)
    out, err = capsys.readouterr()
    assert out == f"group {shown}\ngroup {shown}\nnext\n"
    assert err == f"{shown}\n"
    emit({"group_id": odd}, "", as_json=True)
    out = capsys.readouterr().out
    assert json.loads(out) == {"group_id": odd}
    assert out.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**60, "5120.0 PiB")],
)
def test_sizes_have_one_decimal_and_a_unit(count: int, text: str) -> None:
    assert size(count) == text


def test_unknown_bytes_are_not_measurable_rather_than_zero() -> None:
    assert size(None) == "not measurable"


def test_one_object_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"text": "a\nb"}, "for people", as_json=True)
    assert capsys.readouterr().out == '{"text": "a\\nb"}\n'
    emit({"text": "a\nb"}, "for people", as_json=False)
    assert capsys.readouterr().out == "for people\n"


def test_a_reader_that_went_away_is_no_traceback() -> None:
    script = (
        "from dashboard.cli.output import emit\n"
        "import sys\n"
        "emit({'text': 'x' * 200000}, '', as_json=True)\n"
        "emit({'text': 'more'}, '', as_json=True)\n"
        "sys.exit(3)\n"
    )
    read, write = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    os.close(read)
    _, err = child.communicate(timeout=240)
    assert (child.returncode, err) == (3, "")
