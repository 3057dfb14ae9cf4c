"""The zombie finder on a real zombie, and which processes are a soak's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.soak import proc
from tests.soak.sampler import role

NEVER_WAITS = """
import subprocess
child = subprocess.Popen(["true"])
print(child.pid, flush=True)
input()
"""


def test_a_child_that_nobody_buried_is_a_zombie_among_the_descendants_of_its_parent() -> None:
    # A parent of its own: this process may have children that other tests left unburied.
    parent = subprocess.Popen(
        [sys.executable, "-c", NEVER_WAITS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        while (seen := proc.read(child)) is not None and not seen.zombie:
            time.sleep(0.01)
        found = proc.descendants(proc.read_all(), {parent.pid})
        assert [p.pid for p in found if p.zombie] == [child]
        assert proc.rss_kb(child) is None
    finally:
        parent.communicate("\n")
    assert proc.read(parent.pid) is None


def test_memory_and_files_of_a_process_that_lives() -> None:
    before = proc.open_files(os.getpid())
    assert before is not None
    with Path(os.devnull).open():
        assert proc.open_files(os.getpid()) == before + 1
    assert (proc.rss_kb(os.getpid()) or 0) > 1000


def test_a_detached_process_is_found_by_its_environment() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"SOAK_TEST": "x y"}
    )
    try:
        while child.pid not in proc.with_environment("SOAK_TEST", "x y"):
            time.sleep(0.01)
        assert child.pid not in proc.with_environment("SOAK_TEST", "x")
        assert proc.environment(child.pid)["SOAK_TEST"] == "x y"
    finally:
        child.communicate(b"\n")


def test_roles_are_told_by_command_lines() -> None:
    python = "python", "-m"
    assert role((*python, "dashboard.cli.main", "watch", "--every", "10s")) == "watch"
    assert role((*python, "dashboard.cli.main", "demo", "up")) == "supervisor"
    assert role((*python, "streamlit", "run", "dashboard/app.py")) == "page server"
    assert role((*python, "dashboard.cli.main", "dashboard", "--port", "1")) == "dashboard"
    assert role((*python, "analytics", "--serve", "--data", "d")) == "analysis"
    assert role(("java", "-cp", "x", "kafka.Kafka", "server.properties")) == "broker"
    assert role((*python, "dashboard.cli.main", "plan", "--topic", "t")) is None
