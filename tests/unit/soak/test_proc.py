"""The zombie finder on a real zombie, and which processes are a soak's own."""

from __future__ import annotations

import subprocess
import sys
import time

from tests.soak import proc
from tests.soak.sampler import role

NEVER_WAITS = """
import subprocess
child = subprocess.Popen(["true"])
print(child.pid, flush=True)
input()
"""
OPENS_A_FILE = """
import os
print(flush=True)
input()
file = open(os.devnull)
print(flush=True)
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
    # One of its own: threads that other tests left open and close files of this one.
    child = subprocess.Popen(
        [sys.executable, "-c", OPENS_A_FILE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        before = proc.open_files(child.pid)
        assert before is not None
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        assert proc.open_files(child.pid) == before + 1
        assert (proc.rss_kb(child.pid) or 0) > 1000
    finally:
        child.communicate("\n")


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
