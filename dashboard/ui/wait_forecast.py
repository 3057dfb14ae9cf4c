"""How long a wait-all request is likely to take, from the followers as the snapshot saw them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Forecast:
    """Partitions whose replicas keep up, those that would wait, and the brokers they wait for."""

    quick: int
    slow: int
    behind: tuple[int, ...]


def forecast(
    partitions: pa.Table, topics: pa.Table, chosen: Collection[TopicPartition]
) -> Forecast:
    """Split the chosen partitions by whether every assigned replica is in sync.

    A leader answers a wait-all request when the slowest live replica has caught up (KIP-107), so
    a replica out of sync is what makes it wait.
    """
    names = pa.array(sorted({key.topic for key in chosen}), pa.string())
    known = topics.filter(pc.is_in(topics["topic"], names))
    name_of = dict(zip(known["topic_no"].to_pylist(), known["topic"].to_pylist(), strict=True))
    rows = partitions.filter(pc.is_in(partitions["topic_no"], known["topic_no"].combine_chunks()))
    wanted, behind, slow = set(chosen), set[int](), 0
    for row in rows.select(["topic_no", "partition", "replicas", "isr"]).to_pylist():
        if TopicPartition(name_of[row["topic_no"]], row["partition"]) not in wanted:
            continue
        missing = set(row["replicas"] or ()) - set(row["isr"] or ())
        slow += bool(missing)
        behind |= missing
    return Forecast(len(wanted) - slow, slow, tuple(sorted(behind)))
