"""The first hour of the documentation, command by command, on real brokers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.demo.kafka.brokers import LocalCluster, free_ports
from tests.brokers.workload import Workload
from tests.support import first_hour

pytestmark = [pytest.mark.slow, pytest.mark.spark]
ROOT = Path(__file__).parents[2]
LOWWATER = [sys.executable, "-m", "dashboard.cli.main"]
UNTIL_CTRL_C = ("watch", "dashboard")
# What the page leaves to its reader: a topic made a minute ago is read by nobody's pattern here.
BESIDE = '\n[purge]\npattern_refresh = "0s"\n'


def test_every_command_of_the_first_hour_does_what_it_says(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    workload = Workload({"bootstrap.servers": cluster.bootstrap})
    topic = workload.topic(2)
    workload.produce(topic, 0, 400)
    workload.commit("checkout", {(topic, 0): 400, (topic, 1): 0})
    (tmp_path / "client.properties").write_text("security.protocol=PLAINTEXT\n")
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LOWWATER_STATE_DIR": str(tmp_path / "state"),
    }

    def ours(text: str) -> str:
        return text.replace("broker1:9092", cluster.bootstrap).replace("orders", topic)

    said = {}
    try:
        for command in first_hour.commands():
            if command[0] == "plan":  # the page had it written by now
                settings = ours(first_hour.settings()).replace('"24h"', '"0s"')
                (tmp_path / "lowwater.toml").write_text(settings + BESIDE)
            more = ["--port", str(free_ports(1)[0])] if command[0] == "dashboard" else []
            said[command[0]] = run([*map(ours, command), *more], tmp_path, environ)
    finally:
        workload.close()

    assert topic in said["plan"]
    assert f"purge {topic} on prod" in said["preview"]
    assert "done" in said["runs"]


def run(words: list[str], folder: Path, environ: dict[str, str]) -> str:
    """What a command printed; one that goes on is ended by Ctrl-C once it said something."""
    process = subprocess.Popen(
        [*LOWWATER, *words], cwd=folder, env=environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        if words[0] not in UNTIL_CTRL_C:
            said, _ = process.communicate(timeout=240)
            assert process.returncode == 0, f"{words}: {said}"
            return str(said)
        wanted = "rows:" if words[0] == "watch" else "Ctrl-C"
        said = ""
        for line in process.stdout:
            said += line
            if wanted in line:
                break
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 130, said + rest
        return said
    finally:
        process.kill()
        process.wait()
