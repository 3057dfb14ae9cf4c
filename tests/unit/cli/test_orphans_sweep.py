"""`lowwater orphans sweep`: exit codes, the object, the sentence, and words that do not fit."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.findings import orphans_sweep
from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.domain import acts as words
from dashboard.orphans import verdicts
from dashboard.orphans.sweep.log import SweepLog
from dashboard.purge.journal.journal import Journal
from tests.unit.orphans.sweep_host import STRAY, Host

ROW_KEYS = {
    "broker_id", "log_dir", "directory", "action", "state", "quarantined_as", "bytes", "reason",
}  # fmt: skip


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(tmp_path / "host")
    made.start_broker()
    monkeypatch.setattr("dashboard.cluster.live.connect", lambda *_: nullcontext(made.live))
    Path("v.json").write_text(verdicts.write(made.verdicts()))
    yield made
    made.stop_broker()


def call(host: Host, capsys: pytest.CaptureFixture[str], *words_: str) -> tuple[int, Any, str]:
    """Exit code, the object on stdout, and stderr."""
    line = ["orphans", "sweep", "--log-dirs", str(host.log_dir), "--bootstrap-server", "k:1"]
    code = main([*line, "--json", *words_])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def test_tell_act_restore_and_verify(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    code, told, err = call(host, capsys, "--verdicts", "v.json")
    assert (code, told["applied"], told["rows"][0]["state"], err) == (0, False, "would_move", "")
    assert set(told["rows"][0]) >= ROW_KEYS
    code, done, err = call(host, capsys, "--verdicts", "v.json", "--apply")
    assert (code, done["rows"][0]["state"]) == (0, "moved")
    assert done["totals"] == {"moved": {"folders": 1, "bytes": 8192}}
    switch, moved, *_ = err.splitlines()
    assert "does not stop sweeps here" in switch
    assert moved.startswith("moved ")
    aside = done["rows"][0]["quarantined_as"]
    assert Path(aside).is_dir()
    code, again, _ = call(host, capsys, "--verdicts", "v.json", "--apply")
    assert (code, again["rows"][0]["state"]) == (0, "quarantined")
    code, back, _ = call(host, capsys, "--restore", aside)
    assert (code, back["rows"][0]["state"]) == (0, "restored")
    assert "it is stray as before" in back["notes"][0]
    code, checked, _ = call(host, capsys, "--verify")
    assert (code, checked["logs"][0]["ok"], checked["logs"][0]["entries"]) == (0, True, 4)
    log = host.quarantine / "sweep.log"
    log.write_text(log.read_text().replace("gone-0", "gone-1"))
    code, checked, _ = call(host, capsys, "--verify")
    assert (code, checked["error"]["code"]) == (70, "SWEEP_LOG_BROKEN")
    assert checked["logs"][0]["ok"] is False


def test_a_deletion_before_its_time_needs_its_sentence(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    call(host, capsys, "--verdicts", "v.json", "--apply")
    code, answer, _ = call(host, capsys, "--delete-now", STRAY)
    assert (code, answer["error"]["code"]) == (1, "CONFIRMATION_REQUIRED")
    sentence = f"delete {STRAY} of prod"
    assert f'--confirm "{sentence}"' in answer["error"]["next"]
    code, answer, _ = call(host, capsys, "--delete-now", STRAY, "--confirm", "yes")
    assert (code, answer["error"]["code"]) == (1, "CONFIRMATION_REQUIRED")
    code, answer, _ = call(host, capsys, "--delete-now", STRAY, "--confirm", sentence)
    assert (code, answer["rows"][0]["state"]) == (0, "deleted")
    assert [p.name for p in host.quarantine.iterdir()] == ["sweep.log"]


@pytest.mark.further_but("59m")
@pytest.mark.parametrize("keep", ["0s", "59m", "3599999ms"])
def test_a_quarantine_of_no_time_deletes_nothing_without_the_sentence(
    host: Host, capsys: pytest.CaptureFixture[str], keep: str
) -> None:
    _, answer, _ = call(host, capsys, "--verdicts", "v.json", "--apply")
    lies = Path(answer["rows"][0]["quarantined_as"])
    for flags in (("--apply",), ("--verdicts", "v.json", "--apply"), ("--verdicts", "v.json")):
        code, answer, _ = call(host, capsys, *flags, "--quarantine", keep)
        assert (code, answer["error"]["code"]) == (1, "USAGE")
        assert f"--quarantine {keep} is shorter than an hour" in answer["error"]["message"]
        assert "--delete-now FOLDER" in answer["error"]["next"]
    assert lies.exists()
    code, answer, _ = call(host, capsys, "--apply", "--quarantine", "1h")
    assert (code, answer["rows"][0]["state"]) == (0, "quarantined")


def test_the_quarantine_is_emptied_without_verdicts(
    host: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans_sweep, "LEAST_QUARANTINE", timedelta(0))
    call(host, capsys, "--verdicts", "v.json", "--apply")
    code, answer, _ = call(host, capsys, "--apply")
    assert (code, answer["rows"][0]["state"]) == (0, "quarantined")
    code, answer, _ = call(host, capsys, "--apply", "--quarantine", "0s")
    assert (code, answer["rows"][0]["state"]) == (0, "deleted")


def test_refusals_have_the_exit_codes_of_the_contract(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    never = host.row(verdict=words.NEVER, directory="gone-0.2-stray")
    file = Path("two.json")
    file.write_text(verdicts.write(host.verdicts(never)))
    assert call(host, capsys, "--verdicts", "two.json", "--apply")[0] == 3
    gone = host.row(directory="gone-0.3-stray")
    file.write_text(verdicts.write(host.verdicts(never, gone, host.row())))
    assert call(host, capsys, "--verdicts", "two.json")[0] == 0
    assert call(host, capsys, "--verdicts", "two.json", "--apply")[0] == 2


@pytest.mark.parametrize("where", ["settings", "journal"])
def test_the_read_only_switch_stops_every_act(
    host: Host,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    where: str,
) -> None:
    call(host, capsys, "--verdicts", "v.json", "--apply")
    if where == "settings":
        monkeypatch.setenv("LOWWATER_READ_ONLY", "true")
    else:
        journal = Journal(tmp_path / "state" / "journal.sqlite")
        journal.set_read_only(True, "an approver", utc_now())
        journal.close()
    for act in (("--apply",), ("--restore", STRAY), ("--delete-now", STRAY, "--confirm", "x")):
        code, answer, _ = call(host, capsys, *act)
        assert (code, answer["error"]["code"]) == (3, "READ_ONLY")
    code, _, said = call(host, capsys, "--verdicts", "v.json")
    assert (code, said) == (0, "")


def test_a_journal_that_may_have_forgotten_a_stop_lets_nothing_be_changed(
    host: Host, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A sweep writes nothing to it, so that no write could find that it was rolled back."""
    path = tmp_path / "state" / "journal.sqlite"
    journal = Journal(path)
    journal.set_read_only(False, "ann", utc_now())
    journal.close()
    backup = path.read_bytes()
    journal = Journal(path)
    journal.set_read_only(True, "ann", utc_now())
    journal.close()
    path.write_bytes(backup)
    for act in (("--apply",), ("--verdicts", "v.json", "--apply"), ("--restore", STRAY),
                ("--verdicts", "v.json", "--script")):  # fmt: skip
        code, answer, _ = call(host, capsys, *act)
        assert (code, answer["error"]["code"]) == (70, "JOURNAL_ROLLED_BACK")
    code, answer, _ = call(host, capsys, "--verdicts", "v.json")
    assert (code, answer["rows"][0]["state"]) == (0, "would_move")
    assert host.stray.is_dir()


def test_verdicts_that_are_old_changed_or_of_another_cluster(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path("v.json").read_text()
    found = host.verdicts()
    day = timedelta(hours=24, minutes=5)
    old = replace(found, created_at=found.created_at - day, expires_at=found.expires_at - day)
    files = {
        "VERDICTS_CHANGED": text.replace("gone-0", "gone-1"),
        "VERDICTS_EXPIRED": verdicts.write(old),
        "CLUSTER_MISMATCH": verdicts.write(replace(found, cluster_id="other")),
    }
    for code, content in files.items():
        Path("bad.json").write_text(content)
        for act in ((), ("--apply",), ("--script",)):
            exit_code, answer, _ = call(host, capsys, "--verdicts", "bad.json", *act)
            assert (exit_code, answer["error"]["code"]) == (3, code)
    assert host.stray.is_dir()


def test_a_script_takes_the_role_of_who_decides_and_the_switch(
    host: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has it moves folders with it: what it is made for is a sweep."""
    people = '[people]\nviewers = ["*"]\noperators = ["bob"]\napprovers = ["ann"]\n'
    Path("lowwater.toml").write_text(f"{people}second_person = true\n")
    for name, code in (("eve", 3), ("bob", 3), ("ann", 0)):
        monkeypatch.setenv("LOWWATER_OPERATOR", name)
        exit_code, answer, _ = call(host, capsys, "--verdicts", "v.json", "--script")
        assert exit_code == code, answer
        assert answer.get("error", {}).get("code") == ("ROLE_TOO_LOW" if code else None)
    Path("lowwater.toml").write_text(f"read_only = true\n{people}")
    exit_code, answer, _ = call(host, capsys, "--verdicts", "v.json", "--script")
    assert (exit_code, answer["error"]["code"]) == (3, "READ_ONLY")


def test_how_much_may_go_at_once_is_a_setting(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("lowwater.toml").write_text("orphan_most_share = 0.01\n")
    code, answer, _ = call(host, capsys, "--verdicts", "v.json", "--apply")
    assert (code, answer["rows"][0]["code"]) == (3, "share")
    code, answer, _ = call(host, capsys, "--verdicts", "v.json", "--script")
    assert (code, answer["rows"][0]["code"]) == (3, "share")


def test_what_ends_a_sweep_early_stands_beside_what_was_done(
    host: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = STRAY.replace("gone-0", "gone-1")
    host.disk.segment(host.disk.folder(name), 0)
    later = host.now + timedelta(minutes=1)
    rows = (host.row(), host.row(directory=name, partition=1, newest_at=later))
    Path("two.json").write_text(verdicts.write(host.verdicts(*rows)))
    write = SweepLog._write

    def full(log: SweepLog, data: bytes) -> None:
        if b"gone-1" in data:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(log, data)

    monkeypatch.setattr(SweepLog, "_write", full)
    code, answer, _ = call(host, capsys, "--verdicts", "two.json", "--apply")
    assert (code, answer["error"]["code"]) == (70, "SWEEP_LOG_UNWRITABLE")
    assert [row["state"] for row in answer["rows"]] == ["moved"]
    assert (host.log_dir / name).is_dir()  # no folder is touched without its log
    monkeypatch.undo()


def test_two_rows_for_one_folder_are_no_verdicts(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("twice.json").write_text(verdicts.write(host.verdicts(host.row(), host.row())))
    code, answer, _ = call(host, capsys, "--verdicts", "twice.json", "--apply")
    assert (code, answer["error"]["code"]) == (1, "VERDICTS_INVALID")
    assert host.stray.is_dir()


def test_the_script_is_the_output(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer, _ = call(host, capsys, "--verdicts", "v.json", "--script")
    assert (code, answer["folders"], answer["rows"]) == (0, 1, [])
    line = ["orphans", "sweep", "--log-dirs", str(host.log_dir), "--bootstrap-server", "k:1"]
    assert main([*line, "--verdicts", "v.json", "--script"]) == 0
    assert capsys.readouterr().out.startswith("#!/bin/sh\n")


def test_people_read_a_table(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["orphans", "sweep", "--log-dirs", str(host.log_dir), "--bootstrap-server", "k:1"]
    assert main([*line, "--verdicts", "v.json"]) == 0
    out = capsys.readouterr().out
    assert STRAY in out and "would_move" in out and "8.0 KiB" in out
    assert out.endswith("nothing was changed; --apply does it\n")


@pytest.mark.parametrize(
    "line",
    [
        ["sweep"],
        ["sweep", "--log-dirs", "/a"],
        ["sweep", "--log-dirs", "/a", "--script"],
        ["sweep", "--log-dirs", "/a", "--apply", "--restore", "f"],
        ["sweep", "--log-dirs", "/a", "--restore", "f", "--confirm", "x"],
        ["sweep", "--log-dirs", "/a", "--apply", "--quarantine", "soon", "--bootstrap-server", "k"],
        ["swoop"],
        ["--apply"],
    ],
)
def test_words_that_do_not_fit(
    host: Host, capsys: pytest.CaptureFixture[str], line: list[str]
) -> None:
    assert main(["orphans", *line, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] in ("USAGE", "DURATION_INVALID")
