"""A local path and its file:// URL are the same store, whoever of the two wrote it."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from dashboard.history.pruning import prune
from dashboard.store.snapshots import ClusterStore, Store

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LEAN = """
import sys
import dashboard.purge.jobs.worker, dashboard.cli.purge.delete_records, dashboard.purge.plan.drafts
loaded = {"pyarrow", "numpy", "pandas", "fsspec", "asyncio", "kafka.admin"} & set(sys.modules)
assert not loaded, loaded
"""


@pytest.mark.parametrize("writes, reads", [("{}", "file://{}"), ("file://{}", "{}")])
def test_a_path_and_its_url_are_one_store(tmp_path: Path, writes: str, reads: str) -> None:
    root = tmp_path / "deep" / "data"
    writer = ClusterStore(Store(writes.format(root)), "c1")
    writer.write_connection("h:9092", None, "prod")
    half = writer.begin("snapshots", NOW)
    done = writer.begin("snapshots", NOW)
    for item in (half, done):
        row = pa.table({"snapshot_id": [item.id], "taken_at": [NOW], "broker_id": [1]})
        item.write("brokers", row)
    done.commit(1.0, {})

    store = Store(reads.format(root))
    reader = store.cluster("prod")
    assert (store.clusters(), store.path) == (["c1"], str(root))
    assert reader.ids("snapshots") == [done.id]
    assert reader.read("snapshots", done.id, "brokers").num_rows == 1
    assert store.fs.unstrip_protocol(reader.path) == f"file://{root}/c1"
    half.abandon()
    prune(reader, "snapshots", lambda _: (), NOW)
    assert not list((root / "c1" / "snapshots").iterdir())


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert Store(str(tmp_path / "none")).clusters() == []


def test_the_two_processes_of_a_purge_load_no_library_of_tables() -> None:
    """Each of these costs every purge a tenth of a second, or more."""
    done = subprocess.run([sys.executable, "-c", LEAN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
