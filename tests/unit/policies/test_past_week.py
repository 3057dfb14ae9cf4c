"""Where a policy's week is walked, and that it is one week in however many buckets."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core import processes
from dashboard.core.errors import AnalysisError
from dashboard.policies import apart, simulate
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore
from tests.unit.policies.examples import NOON, policy
from tests.unit.policies.kept_history import Log, analysis, remembers, snapshot, store
from tests.unit.policies.test_simulate import in_buckets

HOUR = timedelta(hours=1)
_PYTHON = sys.executable


def busy(cluster: ClusterStore, seed: int) -> None:
    """Twelve hours of three topics of many partitions: groups come, go and skip partitions, one
    topic is made anew, logs move on; and what an analysis remembers of groups before.
    """
    draw = random.Random(seed)
    ends: dict[tuple[str, int], int] = {}
    for hour in range(12):
        logs = []
        for topic, count in (("a", 9), ("t", 7), ("app-x-repartition", 5)):
            anew = f"{topic}-2" if topic == "t" and hour >= 6 else ""
            for partition in range(count):
                key = (topic + anew, partition)
                end = ends[key] = ends.get(key, 0) + draw.choice((0, 10, 100, 1000))
                commits = {
                    group: draw.choice((end, end // 2, max(end - 20, 0)))
                    for group in ("g", "h", "app", f"once-{hour // 4}")
                    if draw.random() < 0.8
                }
                start = draw.choice((0, 0, end // 4))
                size = draw.choice((-1, -1, -1, None))
                logs.append(Log(end, commits, start, topic, partition, None, size, anew))
        snapshot(cluster, NOON - HOUR * (11 - hour), logs, used=draw.random())
    held = [("g", 5, NOON - 20 * HOUR), ("gone", 3, NOON - 8 * HOUR)]
    remembers(cluster, NOON, held, [("old", 7, NOON - 5 * HOUR)])


@pytest.mark.further
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_week_is_the_same_in_buckets(tmp_path: Path, seed: int) -> None:
    """To the byte: also of whom a budget makes wait, and of groups that skip some partitions."""
    cluster = store(tmp_path)
    busy(cluster, seed)
    for definition in (
        'topics = ["*"]',
        'topics = ["*"]\nmost_partitions_per_hour = 4',
        'topics = ["*"]\nmost_bytes_per_hour = "3KiB"\nmin_purge_interval_ms = 5400000',
        'topics = ["t", "a"]\ntarget = "keep:2h"\ntrigger = "growth-above:1KiB/h"',
        'topics = ["*"]\nwaive = { "once-0" = "gone" }',
        'preset = "repartition"',
    ):
        found = policy(definition)
        whole = simulate.week(cluster, found, NOON, lambda _: {})
        assert whole.snapshots == 12 and whole.topics
        assert simulate.week(cluster, found, NOON, lambda _: {}, walking=in_buckets) == whole


def child(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Let this body run in place of `python -m analytics`."""
    path = folder / "python"
    path.write_text(f"#!{_PYTHON}\nimport json, sys\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setattr(processes.sys, "executable", str(path))


@pytest.fixture
def short(tmp_path: Path) -> ClusterStore:
    cluster = store(tmp_path)
    logs = [Log(100, {"g": 50}, partition=p) for p in range(3)]
    snapshot(cluster, NOON - HOUR, [*logs, Log(9, {"g": 9}, topic="other")])
    analysis(cluster, NOON)
    return cluster


def test_a_policy_of_few_partitions_is_walked_in_this_process(
    short: ClusterStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(tmp_path, monkeypatch, "sys.exit(3)")
    monkeypatch.setattr(apart, "MOST_HERE", 3)  # of four in the cluster
    found = apart.past_week(short, Settings(), policy(), NOON, print)
    assert (found.partitions, found.bytes) == (3, 3000)


def test_one_of_more_is_walked_by_spark_in_a_process_of_its_own(
    short: ClusterStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is handed what is asked, and gives what came of it."""
    body = (
        "import pickle\n"
        "from dashboard.policies.simulate import walked_here\n"
        "from dashboard.store.snapshots import Store\n"
        "from msgspec import to_builtins\n"
        "words = dict(zip(sys.argv[3::2], sys.argv[4::2]))\n"
        "assert sys.argv[1:3] == ['-m', 'analytics'] and '--week' in sys.argv, sys.argv\n"
        "cluster = Store(words['--data']).cluster(words['--cluster'])\n"
        "asked = pickle.loads(sys.stdin.buffer.read())\n"
        "print('walking', asked.policy.name, file=sys.stderr)\n"
        "print(json.dumps({'week': to_builtins(walked_here(cluster, asked))}))\n"
    )
    child(tmp_path, monkeypatch, body)
    monkeypatch.setattr(apart, "MOST_HERE", 2)
    said: list[str] = []
    found = apart.past_week(short, Settings(), policy(), NOON, said.append)
    assert found == simulate.week(short, policy(), NOON, lambda _: {})
    assert said == [f"walking {policy().name}"]
    child(tmp_path, monkeypatch, "print(json.dumps({'week': None}))")
    empty = apart.past_week(short, Settings(), policy(), NOON, said.append)
    assert not empty.points and empty.notes
    child(tmp_path, monkeypatch, "sys.exit(3)")
    with pytest.raises(AnalysisError):
        apart.past_week(short, replace(Settings(), source=tmp_path), policy(), NOON, print)


def test_of_two_that_ask_spark_at_once_the_second_waits(
    short: ClusterStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes a Java of its own, and with it the memory of one."""
    lock = tmp_path / "running"
    body = (
        "import os, time\n"
        f"os.close(os.open({str(lock)!r}, os.O_CREAT | os.O_EXCL))\n"
        "time.sleep(0.2)\n"
        f"os.unlink({str(lock)!r})\n"
        "print(json.dumps({'week': None}))"
    )
    child(tmp_path, monkeypatch, body)
    monkeypatch.setattr(apart, "MOST_HERE", 0)

    def ask(_number: int) -> int:
        return apart.past_week(short, Settings(), policy(), NOON, print).purges

    with ThreadPoolExecutor(2) as both:
        assert list(both.map(ask, range(2))) == [0, 0]
