"""A journal that may be there, and cannot be seen, is not taken for none: it may hold a stop."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli import context
from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.core.errors import JournalError
from dashboard.orphans import verdicts
from dashboard.purge.journal.journal import Journal
from dashboard.settings.settings import Settings
from tests.unit.cli.printed import answer
from tests.unit.orphans.sweep_host import STRAY, Host


@pytest.fixture
def unseen(alone: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """From now on nothing in the state folder can be seen, by this error."""
    state = alone / "state"
    journal = Journal(state / "journal.sqlite")
    journal.set_read_only(True, "ann", utc_now())
    journal.close()
    honest = Path.stat

    def hide(number: int) -> None:
        def asked(self: Path, **options: Any) -> os.stat_result:
            if state in self.parents:
                raise OSError(number, os.strerror(number), str(self))
            return honest(self, **options)

        monkeypatch.setattr(Path, "stat", asked)

    return hide


@pytest.fixture
def host(alone: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    made = Host(alone / "host")
    made.start_broker()
    monkeypatch.setattr("dashboard.cluster.live.connect", lambda *_: nullcontext(made.live))
    Path("v.json").write_text(verdicts.write(made.verdicts()))
    yield made
    made.stop_broker()


def test_no_sweep_acts_where_the_state_folder_is_a_link_to_a_disk_that_is_not_mounted(
    host: Host, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What ends there is not surely nothing: the journal with its stop comes back with the disk."""
    line = ["orphans", "sweep", "--log-dirs", str(host.log_dir), "--bootstrap-server", "k:1"]
    (alone / "state").symlink_to(alone / "volume" / "lowwater")
    error = answer(capsys, *line, "--verdicts", "v.json", "--apply", exit_code=70)["error"]
    assert f"{alone / 'state'} is a link to nothing" in error["message"]
    assert host.stray.is_dir()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_no_sweep_acts_past_a_stop_that_it_cannot_see(
    host: Host, unseen: Callable[[int], None], capsys: pytest.CaptureFixture[str], number: int
) -> None:
    line = ["orphans", "sweep", "--log-dirs", str(host.log_dir), "--bootstrap-server", "k:1"]
    unseen(number)
    with_verdicts = ("--verdicts", "v.json")
    for act in (("--apply",), (*with_verdicts, "--apply"), (*with_verdicts, "--script"),
                ("--restore", STRAY), ("--delete-now", STRAY, "--confirm", "x")):  # fmt: skip
        error = answer(capsys, *line, *act, exit_code=70)["error"]
        assert error["code"] == "JOURNAL_FAILED"
        assert "journal.sqlite cannot be told" in error["message"]
        assert "LOWWATER_STATE_DIR" in error["next"]
    assert host.stray.is_dir()

    assert main([*line, *with_verdicts, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"][0]["state"] == "would_move"
    assert "not known whether an approver stopped every sweep" in err


def test_a_report_does_not_say_that_nothing_was_ever_purged(
    unseen: Callable[[int], None], data: str, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unseen(errno.EACCES)
    words = ("report", "--format", "csv", "--out", "found", "--data", data)
    assert answer(capsys, *words, exit_code=70)["error"]["code"] == "JOURNAL_FAILED"
    assert not (alone / "found").exists()


def test_metrics_say_that_it_could_not_be_read(
    unseen: Callable[[int], None], data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unseen(errno.EACCES)
    value = answer(capsys, "metrics", "--once", "--data", data)
    (readable,) = (
        sample["value"]
        for sample in value["samples"]
        if sample["name"] == "lowwater_readable" and sample["labels"]["part"] == "journal"
    )
    assert readable == 0


def test_what_needs_no_journal_goes_on_without_a_word(
    unseen: Callable[[int], None], data: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unseen(errno.EACCES)
    assert main(["findings", "disks", "--data", data, "--json"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["none", "file/none", "x" * 300, "loop/none", "zero\0"])
def test_a_name_where_nothing_can_lie_is_no_journal(alone: Path, name: str) -> None:
    (alone / "file").write_text("")
    (alone / "loop").symlink_to("loop")
    assert not context.journal_exists(Settings(state_dir=alone / name))


def test_real_rights_are_told_too(alone: Path) -> None:
    closed = alone / "closed"
    closed.mkdir(mode=0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(JournalError, match="Permission denied"):
            context.journal_exists(Settings(state_dir=closed / "state"))
    finally:
        if root:
            os.seteuid(0)
