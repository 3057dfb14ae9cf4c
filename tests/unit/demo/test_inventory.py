"""The demo's child that takes stock: files replaced whole, troubles told once, low CPU."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from dashboard.demo import children
from dashboard.demo.children import Disk
from dashboard.inventory.loading import load

SEGMENT = "00000000000000000000.log"


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """Broker 1 with one partition of 500 bytes."""
    log_dir = tmp_path / "logs"
    (log_dir / "t-0").mkdir(parents=True)
    (log_dir / "t-0" / SEGMENT).write_bytes(b"x" * 500)
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return Disk(1, str(log_dir), str(tmp_path / "1.inventory"))


def log_bytes(disk: Disk) -> list[int]:
    return load(disk.file).tables["segments"].column("log_bytes").to_pylist()


class Rounds:
    """In place of the event that ends the loop: `between` runs in each rest."""

    def __init__(self, *between: Callable[[], object]) -> None:
        self._between = list(between)
        self.rests: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.rests.append(seconds)
        if self._between:
            self._between.pop(0)()
            return False
        return True


def test_each_round_replaces_the_file(disk: Disk) -> None:
    segment = Path(disk.log_dirs, "t-0", SEGMENT)
    seen: list[list[int]] = []
    grow = lambda: (seen.append(log_bytes(disk)), segment.write_bytes(b"x" * 700))  # noqa: E731
    children.run([disk], Rounds(grow))
    assert (seen, log_bytes(disk)) == ([[500]], [700])
    assert [path.name for path in Path(disk.file).parent.iterdir() if path.is_file()] == [
        "1.inventory"
    ]


def test_a_disk_that_is_away_keeps_its_file_and_is_told_once(
    disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = Path(disk.log_dirs)
    other = Disk(2, str(log_dir), str(log_dir.parent / "2.inventory"))
    away = lambda: log_dir.rename(log_dir.parent / "away")  # noqa: E731
    children.run([other, disk], Rounds(lambda: None, away, lambda: None))
    told = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in told] == ["broker 2", "broker 2", "broker 1"]
    assert "belongs to broker 1" in told[0]
    assert "no such file" in told[2]
    assert log_bytes(disk) == [500]
    assert not Path(other.file).exists()


def test_it_rests_longer_when_a_round_costs_much_cpu_time(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 0.001, 10.0, 11.0])
    monkeypatch.setattr(children, "time", SimpleNamespace(process_time=lambda: next(clock)))
    rounds = Rounds(lambda: None)
    children.run([disk], rounds)
    assert rounds.rests == [children.EVERY_SECONDS, children.REST]


def test_the_process_ends_in_order_when_asked(disk: Disk) -> None:
    flags = ["--disk", str(disk.broker_id), disk.log_dirs, disk.file]
    with subprocess.Popen([sys.executable, "-m", "dashboard.demo.children", *flags]) as child:
        deadline = time.monotonic() + 60
        while not Path(disk.file).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
    assert log_bytes(disk) == [500]
