"""A small history by our analysis, by DuckDB and by Polars: the tables that all have are equal.

The peers spell each rule anew, so a rule that came on one side alone shows here and not first in
a bench of minutes. They are pinned in requirements-bench.txt, which `make test-all` installs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from analytics import job, tasks
from dashboard.core.clock import utc_now
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore, Store
from tests.bench import large_history
from tests.bench.large_history import EVERY, PARTITIONS_PER_TOPIC, Shape, write
from tests.support import in_process

WHY = "is of requirements-bench.txt, which make test-all installs"
pytest.importorskip("duckdb", reason=f"DuckDB {WHY}")
pytest.importorskip("polars", reason=f"Polars {WHY}")

from tests.bench import engine_peers as peers  # noqa: E402  (imports both)

SHAPE = Shape(2000, 100, 18)
Found = tuple[dict[str, pa.Table], dict[str, Any]]


_HIDDEN, _UNTOLD = 17, 6
_bench = large_history.tables_of


def _odd(shape: Shape, step: int) -> dict[str, dict[str, Any]]:
    """The bench's tables, where some logs are empty besides, readers of one topic in forty stand
    past its logs' ends, some offsets stand still for ever, some readers stop where their topic is
    made anew or its id is told first, and the newest snapshots miss a topic.
    """
    tables = _bench(shape, step)
    logs, offsets = tables["partitions"], tables["group_offsets"]
    end, topic_no, partition = logs["high_watermark"], offsets["topic_no"], offsets["partition"]
    empty = np.arange(shape.partitions) % 13 == 6
    logs["log_start_offset"] = np.where(empty, end, logs["log_start_offset"])
    number = topic_no * PARTITIONS_PER_TOPIC + partition
    known = pc.fill_null(offsets["committed_offset"], -1).to_numpy()
    found = np.where(topic_no % 40 == 5, end[number] + 1, known)
    found = np.where(number % 11 == 5, 7, found)
    offsets["committed_offset"] = pa.array(found, mask=known < 0)
    stopped = (number % 3 == 1) & (topic_no % 40 == 3) & (step >= shape.snapshots // 2)
    # On a topic of which no id was told at first some readers stop before the first one is.
    stopped |= (number % 3 == 1) & (topic_no % 40 == 9) & (step >= _UNTOLD)
    tables["group_offsets"] = _where(offsets, ~stopped)
    tables["topics"]["topic_id"] = _untold(tables["topics"], step)
    if step < shape.snapshots - 2:
        return tables
    some = {n: columns for n, columns in tables.items() if "topic_no" in columns}
    return tables | {n: _where(c, np.asarray(c["topic_no"]) != _HIDDEN) for n, c in some.items()}


def _untold(topics: dict[str, Any], step: int) -> pa.Array:
    """The ids of topics, where nobody tells one at first, one ever, or one for a while."""
    of = topics["topic_no"].to_numpy() % 40
    untold = (of == 9) & (step < _UNTOLD) | (of == 11) | (of == 12) & (step // 3 == 2)
    return pc.if_else(pa.array(untold), None, topics["topic_id"])


def _where(columns: dict[str, Any], some: Any) -> dict[str, Any]:
    rows = pa.table(columns).filter(pa.array(some, pa.bool_()))
    return {name: rows[name].combine_chunks() for name in rows.column_names}


# The ends of what each analysis finds new: all at once, or going on from what earlier ones carried.
@pytest.fixture(scope="module", params=[(18,), (5, 10, 18)], ids=["anew", "going on"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The findings of the newest snapshot, and the files that peers read."""
    cluster = ClusterStore(Store(str(tmp_path_factory.mktemp("data"))), "peers")
    began = utc_now().replace(microsecond=0) - EVERY * (SHAPE.snapshots + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "run", in_process.run)
        patch.setattr(large_history, "tables_of", _odd)
        for first, end in pairwise((0, *request.param)):
            write(cluster, began, SHAPE, range(first, end))
            job.analyze(None, cluster, Settings(), now=utc_now)  # type: ignore[arg-type]
    newest = cluster.latest_analysis()
    tables = {table: cluster.read("findings", newest, table) for table in peers.COLUMNS}
    return peers.ours(tables), peers.paths(cluster.path, cluster.ids("snapshots"))


@pytest.mark.parametrize("peer", [peers.by_duckdb, peers.by_polars])
def test_every_row_is_the_peers(found: Found, peer: Any) -> None:
    ours, files = found
    theirs = peer(files)
    different = {t: peers.different(t, rows, theirs[t]) for t, rows in ours.items()}
    assert different == dict.fromkeys(peers.COLUMNS, 0)
    assert ours["holds"].num_rows > 7000 and ours["trends"].num_rows > 5000


def test_the_history_has_the_cases_that_rules_are_for(found: Found) -> None:
    """A target that the log start raised, empty logs, topics hidden or made anew, with a first
    commit of the former number among them, readers that were seen before their topic's id was
    told, and all readers past the end.
    """
    holds, targets = found[0]["holds"], found[0]["reclaimable"]
    targets = targets.filter(pc.equal(targets["target"], "committed"))
    assert pc.any(pc.equal(targets["target_offset"], targets["log_start_offset"])).as_py()
    untold, told = (pc.equal(holds["topic"], f"topic-{n:05d}") for n in (9, 10))
    assert 0 < pc.sum(untold).as_py() < pc.sum(told).as_py()
    assert pc.all(holds.filter(untold)["topic_id"].is_valid()).as_py()
    assert pc.any(holds["topic_id"].is_null()).as_py()
    anew = holds.filter(pc.ends_with(holds["topic_id"], "b"))
    assert anew.num_rows and not anew["last_commit_at"].null_count
    assert pc.any(pc.equal(anew["committed_offset"], 7)).as_py()
    assert pc.any(pc.equal(targets["log_start_offset"], targets["high_watermark"])).as_py()
    assert pc.any(pc.invert(pc.is_in(holds["topic"], value_set=targets["topic"]))).as_py()
    untold = targets.filter(targets["target_offset"].is_null())
    held = holds.join(untold, ["topic", "partition"], join_type="inner")
    assert pc.any(pc.greater(held["committed_offset"], held["high_watermark"])).as_py()
