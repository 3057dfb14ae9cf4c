"""The same analysis on a Spark cluster by one setting: a standalone master with two workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wide_history
from tests.support.in_buckets import copied
from tests.support.lab import Lab
from tests.support.spark_history import ROOT, analytics, declared, findings, history
from tests.support.standalone_spark import OPTIONS, Standalone, bare_python, standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture
def on_cluster(
    spark_cluster: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Standalone:
    """The one setting; and a Python for workers that lacks our package."""
    python = bare_python(tmp_path.with_name(f"{tmp_path.name}-python"))
    named = ("numpy", "pyarrow", "msgspec", "dashboard", "analytics")
    assert [_imports(python, name) for name in named] == [1, 1, 0, 0, 0]
    monkeypatch.setenv("LOWWATER_SPARK_MASTER", spark_cluster.url)
    monkeypatch.setenv("LOWWATER_SPARK_CONF", json.dumps(OPTIONS))
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    return spark_cluster


def _imports(python: Path, module: str) -> bool:
    command = [str(python), "-c", f"import {module}"]
    return subprocess.run(command, cwd="/", capture_output=True, check=False).returncode == 0


def test_a_cluster_gives_the_tables_of_one_machine(lab: Lab, on_cluster: Standalone) -> None:
    store = declared(lab)
    history(store)
    local = findings(store.cluster, store.analyze(full=True).analysis_id)
    assert all(local[table] for table in ("holds", "curves", "reclaimable", "blockers"))
    other = copied(store.cluster, "other", [16])

    answer = analytics(store, "--cluster", "other", "--full")

    assert "error" not in answer, answer
    assert findings(other, answer["analysis_id"]) == local
    assert [app["name"] for app in on_cluster.state()["completedapps"]] == ["lowwater"]
    assert all(on_cluster.finished_tasks(worker) for worker in (0, 1)), "both did the work"


@pytest.mark.timeout(600)
def test_20_000_partitions_of_a_cluster_that_lost_a_broker_are_told_alike(
    lab: Lab, on_cluster: Standalone
) -> None:
    assert wide_history.differing_elsewhere(lab) == []
    assert all(on_cluster.finished_tasks(worker) > 8 for worker in (0, 1)), "both did the work"


KILLED = """
import os, signal, sys
from analytics import __main__ as service, kernels
from analytics.tasks import answer

told, folder = kernels.told, sys.argv.pop(1)

def killed(view, work, judged):
    found = told(view, work, judged)
    if view.bucket < 12:
        return found
    try:
        os.close(os.open(f"{folder}/died", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return found
    list(answer(lambda _: found, view.place, work.snapshot, view.bucket))
    with open(f"/proc/{os.getppid()}/stat") as daemon:
        executor = int(daemon.read().rsplit(")", 1)[1].split()[1])
    os.kill(executor, signal.SIGKILL)
    os._exit(1)

kernels.told = killed
sys.exit(service.main())
"""


def test_an_executor_that_is_lost_in_the_middle_changes_nothing(
    lab: Lab, tmp_path: Path, on_cluster: Standalone
) -> None:
    """With it goes what its finished tasks had told, where that is summed again by other tasks."""
    store = declared(lab)
    history(store)
    local = findings(store.cluster, store.analyze(full=True).analysis_id)
    other = copied(store.cluster, "other", [16])
    died = tmp_path.with_name(f"{tmp_path.name}-died")
    died.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(died), "--data", other.store.root,
         "--cluster", "other", "--settings", str(store.settings.source), "--full"],
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert [one.name for one in died.iterdir()] == ["died"]
    analysis = json.loads(done.stdout.splitlines()[-1])["analysis_id"]
    assert findings(other, analysis) == local
    found = other.manifest("findings", analysis)
    named = {file for table in found.tables for file, _ in found.files(table)}
    folder = Path(other.path, "findings", found.id)
    assert {file.name for file in folder.iterdir()} == named | {"manifest.json"}
