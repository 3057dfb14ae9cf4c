"""Findings of a large cluster, made by arithmetic: facts, holds and curves as pages read them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.estimate.curve_tables import ReplicaCurves, from_table
from dashboard.estimate.curves import Ints
from dashboard.store.tables import FINDING_TABLES, conform

REPLICAS, KNOTS, GROUPS, PER_TOPIC = 3, 16, 10, 100


@dataclass(frozen=True)
class LargeFindings:
    """`facts` of the committed target, those of the high watermark, every group's holds, curves."""

    facts: pa.Table
    holds: pa.Table
    curves: ReplicaCurves


def made(partitions: int) -> LargeFindings:
    """So many partitions of REPLICAS replicas with KNOTS knots each; each has GROUPS groups."""
    random = np.random.default_rng(7)
    start = random.integers(0, 10**6, partitions)
    end = start + random.integers(10**5, 10**7, partitions)
    lowest = start + ((end - start) * random.random(partitions)).astype(np.int64)
    names = np.array([f"topic-{n:05d}" for n in range(-(-partitions // PER_TOPIC))])
    topic = pa.array(np.repeat(names, PER_TOPIC)[:partitions])
    where = {"topic": topic, "partition": pa.array(np.arange(partitions) % PER_TOPIC, pa.int32())}
    curves = _curves(where, start, end, random)
    # The group that commits least differs from partition to partition.
    behind = np.arange(partitions) % GROUPS
    claims = [
        {**where, "group_id": pa.array([f"group-{n}"] * partitions),
         "committed_offset": lowest + ((n - behind) % GROUPS) * (end - lowest) // GROUPS}
        for n in range(GROUPS)
    ]  # fmt: skip
    spec = FINDING_TABLES["holds"]
    holds = pa.concat_tables([conform(spec, pa.table(claim)) for claim in claims])
    return LargeFindings(_facts(where, start, lowest, end, behind), holds, curves)


def _facts(
    where: dict[str, pa.Array], start: Ints, target: Ints, end: Ints, behind: Ints
) -> pa.Table:
    """The columns of a partition's facts that the what-if and the topics' rows read."""
    spec = FINDING_TABLES["reclaimable"]
    zeros = np.zeros(len(start), dtype=np.int64)
    sizes = {n: zeros for n in spec.schema.names if "bytes" in n}
    flag = pa.array(np.ones(len(start), dtype=bool))
    columns = {
        **where, **sizes, "target_offset": target, "log_start_offset": start,
        "records": target - start, "method": pa.array(["history"] * len(start)),
        "held_by": pa.array(np.char.add("group-", behind.astype(str))),
        "readers_declared": flag, "high_watermark": end, "limit_offset": end,
    }  # fmt: skip
    table = conform(spec, pa.table(columns))
    names = pa.array([[]] * len(start), pa.list_(pa.string()))
    return (
        table.append_column("guard_names", names)
        .append_column("consumed", flag)
        .append_column("free", flag)
        .append_column("guarded", pc.invert(flag))
    )


def _curves(
    where: dict[str, pa.Array], start: Ints, end: Ints, random: np.random.Generator
) -> ReplicaCurves:
    count = len(start) * REPLICAS
    begin, width = np.repeat(start, REPLICAS)[:, None], np.repeat(end - start, REPLICAS)[:, None]
    offset = (begin + width * np.sort(random.random((count, KNOTS)), axis=1)).astype(np.int64)
    offset[:, :1], offset[:, -1:] = begin, begin + width
    steps = np.arange(KNOTS)
    offset += steps
    row = pa.array(np.repeat(np.arange(len(start)), REPLICAS * KNOTS))
    total = count * KNOTS
    columns = {
        **{name: values.take(row) for name, values in where.items()},
        "broker_id": pa.array(
            np.tile(np.repeat(np.arange(REPLICAS), KNOTS), len(start)), pa.int32()
        ),
        "log_dir": pa.DictionaryArray.from_arrays(np.zeros(total, np.int32), ["/d"]).cast("string"),
        "offset": offset.ravel(),
        "bytes_below": ((offset - begin) * 700).ravel(),
        "is_base": np.zeros(total, dtype=bool),
        "method": pa.DictionaryArray.from_arrays(np.zeros(total, np.int32), ["history"]).cast(
            "string"
        ),
        "segment_bytes": np.full(total, 1 << 30),
        "rolled_bytes": np.full(total, 1 << 28),
    }
    return from_table(conform(FINDING_TABLES["curves"], pa.table(columns)))
