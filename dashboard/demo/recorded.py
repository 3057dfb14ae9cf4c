"""A week before the demo began: what its topics would have held, had its workload run that long.

Lines over time need a past, and a demo has none in its first minute. So the newest snapshot and
analysis are taken back hour by hour, by the clock of the workload, and written as the product
writes its own: into a store of their own, marked, that charts alone open. No analysis, guard,
forecast or plan reads a folder beside the data.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.processes import Stop
from dashboard.demo.truth import TOPICS
from dashboard.store.snapshot_files import Kind, Writer, new_id
from dashboard.store.snapshots import ClusterStore, Store

HOURS = 7 * 24
DETAILS = {"recorded": True}
# Records of the workload are written by day more than by night, a little more each day, and what
# is older than a day and a half has been deleted.
_BY_DAY, _NOON, _EACH_DAY, _KEPT_HOURS = 0.6, 15, 1.08, 36
_WAITED_SECONDS = 1.0


def share(before: timedelta, now: datetime) -> float:
    """How much of what a topic holds `now` it held so long before: 1.0 is as much."""
    return _written(now - before, now) / _written(now, now)


def _written(until: datetime, now: datetime) -> float:
    """What comes in the hours that are kept at that time, in records an hour of now."""
    hours = (until - timedelta(hours=back) for back in range(_KEPT_HOURS))
    return sum(_pace(hour, now) for hour in hours)


def _pace(hour: datetime, now: datetime) -> float:
    by_day = 1 + _BY_DAY * math.cos((hour.hour - _NOON) / 24 * 2 * math.pi)
    return by_day * float(_EACH_DAY ** ((hour - now) / timedelta(days=1)))


def write(newest: ClusterStore, into: ClusterStore, ended: Callable[[], bool]) -> int:
    """The hours of the week before the oldest snapshot, oldest first, until `ended`; how many."""
    of, analysis = newest.latest_snapshot(), newest.latest_analysis()
    now = newest.manifest("snapshots", of).taken_at
    first = newest.manifest("snapshots", newest.ids("snapshots")[0]).taken_at
    tables = {t: newest.read("snapshots", of, t) for t in ("topics", "replicas", "log_dirs")}
    blockers = newest.read("findings", analysis, "blockers")
    made = 0
    for at in _hours(first):
        if ended():
            break
        known = share(now - at, now)
        shares = pa.array([known if name in _STEADY else 1.0 for name in _names(tables)])
        _snapshot(into, at, tables, shares)
        _analysis(into, at, blockers, known)
        made += 1
    return made


_STEADY = frozenset(topic.name for topic in TOPICS if topic.deletable and topic.per_second)


def _hours(first: datetime) -> Iterator[datetime]:
    for back in range(HOURS, 0, -1):
        yield first - timedelta(hours=back)


def _names(tables: dict[str, pa.Table]) -> list[str]:
    topics, replicas = tables["topics"], tables["replicas"]
    named = dict(zip(topics["topic_no"].to_pylist(), topics["topic"].to_pylist(), strict=True))
    return [named[number] for number in replicas["topic_no"].to_pylist()]


def _snapshot(
    into: ClusterStore, at: datetime, tables: dict[str, pa.Table], shares: pa.Array
) -> None:
    replicas = tables["replicas"]
    sizes = _whole(pc.multiply(replicas["size_bytes"], shares))
    then = _set(replicas, "size_bytes", sizes)
    disks = _disks(tables["log_dirs"], replicas, then)
    _commit(into, "snapshots", at, {**tables, "replicas": then, "log_dirs": disks})


def _analysis(into: ClusterStore, at: datetime, blockers: pa.Table, known: float) -> None:
    held = _whole(pc.multiply(blockers["bytes_held_alone"], known))
    _commit(into, "findings", at, {"blockers": _set(blockers, "bytes_held_alone", held)})


def _commit(into: ClusterStore, kind: Kind, at: datetime, tables: dict[str, pa.Table]) -> None:
    writer = Writer(into.fs, into.path, kind, new_id(at), at)
    for name, table in tables.items():
        writer.write(name, _stamped(table, writer.id, at))
    writer.commit(0.0, DETAILS)


def _disks(disks: pa.Table, now: pa.Table, then: pa.Table) -> pa.Table:
    """The disks with as much more free as the replicas on them had less."""
    place = ["broker_id", "log_dir"]
    less = pc.subtract(now["size_bytes"], then["size_bytes"])
    sums = pa.table([now[name] for name in place] + [less], names=[*place, "less"])
    rows = sums.group_by(place).aggregate([("less", "sum")])
    by_place = {(row["broker_id"], row["log_dir"]): row["less_sum"] for row in rows.to_pylist()}
    usable = [
        None if row["usable_bytes"] is None
        else row["usable_bytes"] + (by_place.get((row["broker_id"], row["log_dir"])) or 0)
        for row in disks.select([*place, "usable_bytes"]).to_pylist()
    ]  # fmt: skip
    return _set(disks, "usable_bytes", pa.array(usable, pa.int64()))


def _whole(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(pc.round(values), pa.int64())


def _set(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


def _stamped(table: pa.Table, item_id: str, at: datetime) -> pa.Table:
    kind = table.schema.field("taken_at").type
    times = pa.repeat(pa.scalar(at, kind), table.num_rows)
    ids = pa.repeat(item_id, table.num_rows)
    return _set(_set(table, "snapshot_id", ids), "taken_at", times)


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m dashboard.demo.recorded DATA CLUSTER_ID INTO`: waits for the first analysis."""
    parser = argparse.ArgumentParser(prog="recorded")
    parser.add_argument("data")
    parser.add_argument("cluster_id")
    parser.add_argument("into")
    asked = parser.parse_args(arguments)
    ended = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    os.nice(19)  # the demo's own analyses come first
    newest = ClusterStore(Store(asked.data), asked.cluster_id)
    while newest.latest("findings") is None:
        if ended.wait(_WAITED_SECONDS):
            return 0
    made = write(newest, ClusterStore(Store(asked.into), asked.cluster_id), ended.is_set)
    print(f"{made} hours written", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
