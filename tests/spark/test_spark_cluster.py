"""The same analysis on a Spark cluster by one setting: a standalone master with two workers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.spark.conftest import Lab
from tests.support.spark_history import analytics, declared, findings, history
from tests.support.standalone_spark import OPTIONS, Standalone, standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture
def on_cluster(spark_cluster: Standalone, monkeypatch: pytest.MonkeyPatch) -> Standalone:
    """The one setting; and a Python for workers that is not there, so that none can be used."""
    monkeypatch.setenv("LOWWATER_SPARK_MASTER", spark_cluster.url)
    monkeypatch.setenv("LOWWATER_SPARK_CONF", json.dumps(OPTIONS))
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")
    return spark_cluster


def test_a_cluster_gives_the_tables_of_one_machine(lab: Lab, on_cluster: Standalone) -> None:
    store = declared(lab)
    history(store)
    local = findings(store.cluster, store.analyze(full=True).analysis_id)
    assert all(local[table] for table in ("holds", "curves", "reclaimable", "blockers"))

    answer = analytics(store, "--full")

    assert "error" not in answer, answer
    assert findings(store.cluster, answer["analysis_id"]) == local
    assert [app["name"] for app in on_cluster.state()["completedapps"]] == ["lowwater"]
    assert all(on_cluster.finished_tasks(worker) for worker in (0, 1)), "both did the work"
