"""Recorded lags of real brokers: windows of snapshots with their truth, as files and back.

A recording NAME is three files. `NAME.parquet`: a row per replica and snapshot, what ListOffsets
and the metadata told of it. `NAME-truth.parquet`: a row per replica of a window's last snapshot:
`intended`, whether what was done makes it slow (a broker that is stopped or down: true; nothing
done to it: false; null: only measuring tells); `behind_seconds`, the least age of the oldest bytes
its files lacked in the window's last 3 s; `cause`, why it is slow if it is (null: unsaid).
`NAME.json`: of each window the scenario, and brokers, throttles and reassignments at its end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analytics.metrics.scrapes import between
from analytics.replicas import points, trends
from analytics.replicas.history import Step
from analytics.replicas.panes import SECOND
from dashboard.estimate.curve_tables import from_table
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES
from tests.support.one_bucket import slow_followers

SLOW_AGE, LEVEL_AGE = 2.0, 1.0  # seconds; a replica between them is not judged
_KEPT = [
    "taken_at", "broker_id", "log_dir", "topic", "partition", "is_future", "log_start_offset",
    "log_end_offset", "is_leader", "in_sync", "observed_at",
]  # fmt: skip
_TRUTH = pa.schema(
    [("window", pa.int16()), ("topic", pa.string()), ("partition", pa.int32()),
     ("broker_id", pa.int32()), ("intended", pa.bool_()), ("behind_seconds", pa.float32()),
     ("cause", pa.string())]
)  # fmt: skip
_NOBODY = pa.array([], pa.int32())  # no log dirs: no broker's are waited for
_NO_STEP = Step(np.zeros(0, np.int64), np.zeros(0, np.int64))  # no sizes: nothing grows
Row = dict[str, Any]
Place = tuple[str, int, int]  # topic, partition, broker


@dataclass(frozen=True)
class Recorded:
    """One window: rows of replicas (_KEPT), what was asked for at its end, the truth per Place."""

    scenario: str
    replicas: pa.Table
    asked: Mapping[str, list[Row]]
    truth: Sequence[tuple[Any, ...]] = field(default=())

    def with_truth(self, truth: Sequence[tuple[Any, ...]]) -> Recorded:
        """The same window, judged."""
        return replace(self, truth=truth)

    def last(self) -> list[Row]:
        """Rows of the followers in the last snapshot, each with its `leader_id`."""
        newest = pc.max(self.replicas["taken_at"])
        rows = self.replicas.filter(pc.equal(self.replicas["taken_at"], newest)).to_pylist()
        led = {(r["topic"], r["partition"]): r["broker_id"] for r in rows if r["is_leader"]}
        return [
            {**r, "leader_id": led.get((r["topic"], r["partition"]))}
            for r in rows
            if not r["is_leader"] and not r["is_future"]
        ]

    def verdicts(self) -> dict[Place, tuple[bool | None, str | None]]:
        """Whether each follower is slow, and why. None: measured between the two ages, or slow
        though nothing was done to it (the machine was).
        """
        found: dict[Place, tuple[bool | None, str | None]] = {}
        for topic, partition, broker, intended, behind, cause in self.truth:
            found[topic, partition, broker] = (_slow(intended, behind), cause)
        return found

    def followers(self) -> list[Row]:
        """The rows of `slow_followers` at the window's end, by the real analysis."""
        topics = sorted(set(self.replicas["topic"].to_pylist()))
        carried, told = trends.nothing(), None
        log_dirs = SNAPSHOT_TABLES["log_dirs"].schema.empty_table()
        at, reading = 0, 0.0
        for taken_at in pc.unique(self.replicas["taken_at"]).sort():
            told = points.told(cast(ClusterStore, _Snapshot(self, topics, taken_at)), "")
            at = taken_at.cast(pa.int64()).as_py()
            first, last = between(told, at)
            reading = ((last or 0) - (first or 0)) / SECOND
            carried = trends.stepped(
                carried, told, _NO_STEP, log_dirs, brokers=_NOBODY, taken_at=at, reading=reading
            )
        assert told is not None
        read = {
            name: pa.Table.from_pylist(rows, schema=_schema(name))
            for name, rows in self.asked.items()
        }
        numbers = {topic: number for number, topic in enumerate(topics)}
        moves = [{**r, "topic_no": numbers[r["topic"]]} for r in self.asked["reassignments"]]
        schema = SNAPSHOT_TABLES["reassignments"].schema
        read["reassignments"] = pa.Table.from_pylist(moves, schema=schema)
        read["topics"] = _topics(topics)
        curves = from_table(FINDING_TABLES["curves"].schema.empty_table())
        found = slow_followers(carried, told, curves, read, taken_at=at, reading=reading)
        return list(found.to_pylist())


def _slow(intended: bool | None, behind: float | None) -> bool | None:
    if intended or behind is None:
        return intended
    measured = None if LEVEL_AGE <= behind < SLOW_AGE else behind >= SLOW_AGE
    return measured if intended is None or not measured else None


class _Snapshot:
    """Stands for a store that holds one snapshot of a window."""

    def __init__(self, window: Recorded, topics: list[str], taken_at: pa.Scalar) -> None:
        rows = window.replicas.filter(pc.equal(window.replicas["taken_at"], taken_at))
        number = pc.index_in(rows["topic"], value_set=pa.array(topics))
        rows = rows.append_column("topic_no", number)
        rows = rows.append_column("size_bytes", pa.nulls(rows.num_rows, pa.int64()))
        rows = rows.append_column("error", pa.nulls(rows.num_rows, pa.string()))  # all assigned
        self._tables = {"replicas": rows, "topics": _topics(topics)}
        for name in ("partitions", "configs"):
            self._tables[name] = SNAPSHOT_TABLES[name].schema.empty_table()

    def read(
        self,
        _kind: str,
        _id: str,
        table: str,
        columns: list[str],
        *,
        only: pc.Expression | None = None,
    ) -> pa.Table:
        found = self._tables[table].select(columns)
        return found if only is None else found.filter(only)


def _topics(topics: list[str]) -> pa.Table:
    rows = [{"topic_no": n, "topic": t, "topic_id": t} for n, t in enumerate(topics)]
    return pa.Table.from_pylist(rows, schema=SNAPSHOT_TABLES["topics"].schema)


def _schema(table: str) -> pa.Schema:
    return SNAPSHOT_TABLES[table].schema


def read(cluster: ClusterStore, snapshot_ids: Sequence[str], scenario: str) -> Recorded:
    """A window of a store's snapshots, not judged yet."""
    parts = []
    for snapshot_id in snapshot_ids:
        rows = cluster.read("snapshots", snapshot_id, "replicas")
        topics = cluster.read("snapshots", snapshot_id, "topics")
        index = pc.index_in(rows["topic_no"], value_set=topics["topic_no"].combine_chunks())
        rows = rows.append_column("topic", topics["topic"].take(index))
        parts.append(rows.select(_KEPT))
    newest = snapshot_ids[-1]
    names = dict(zip(topics["topic_no"].to_pylist(), topics["topic"].to_pylist(), strict=True))
    small = {
        name: cluster.read("snapshots", newest, name).select(columns).to_pylist()
        for name, columns in _ASKED.items()
    }
    small["configs"] = [row for row in small["configs"] if ".throttled." in row["key"]]
    small["reassignments"] = [
        {**{k: v for k, v in row.items() if k != "topic_no"}, "topic": names[row["topic_no"]]}
        for row in small["reassignments"]
    ]
    return Recorded(scenario, pa.concat_tables(parts), small)


_ASKED = {
    "brokers": ["broker_id", "rack", "reachable"],
    "configs": ["scope", "name", "key", "value"],
    "reassignments": ["topic_no", "partition", "adding", "removing"],
}


def write(folder: Path, name: str, windows: Sequence[Recorded]) -> None:
    """The three files of a recording."""
    folder.mkdir(parents=True, exist_ok=True)
    numbered = [
        w.replicas.append_column("window", pa.repeat(pa.scalar(n, pa.int16()), len(w.replicas)))
        for n, w in enumerate(windows)
    ]
    truth = [
        dict(zip(_TRUTH.names, (number, *row), strict=True))
        for number, window in enumerate(windows)
        for row in window.truth
    ]
    replicas = pa.concat_tables(numbered)
    names = pc.replace_substring_regex(replicas["log_dir"], ".*/", "")
    replicas = replicas.set_column(replicas.column_names.index("log_dir"), "log_dir", names)
    for suffix, table in (
        ("", replicas),
        ("-truth", pa.Table.from_pylist(truth, schema=_TRUTH)),
    ):
        pq.write_table(table, folder / f"{name}{suffix}.parquet", compression="zstd")
    told = [{"scenario": window.scenario, **window.asked} for window in windows]
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in told)
    (folder / f"{name}.json").write_text(f"[\n{lines}\n]\n")


def load(folder: Path, name: str) -> Iterator[Recorded]:
    """The windows of a recording, in their order."""
    replicas = pq.read_table(folder / f"{name}.parquet")
    truth = pq.read_table(folder / f"{name}-truth.parquet").to_pylist()
    for number, told in enumerate(json.loads((folder / f"{name}.json").read_text())):
        rows = replicas.filter(pc.equal(replicas["window"], number)).select(_KEPT)
        mine = [tuple(row.values())[1:] for row in truth if row["window"] == number]
        yield Recorded(told.pop("scenario"), rows, told, mine)
