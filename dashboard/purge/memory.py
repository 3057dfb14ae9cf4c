"""What the store remembers: groups seen in any kept snapshot, bytes measured, declarations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from dashboard.model import GroupOffset, TopicPartition
from dashboard.purge.facts import PlanFacts
from dashboard.purge.plan import Estimate
from dashboard.purge.resolve import ResolvedTarget
from dashboard.settings import Settings, TopicDeclaration, declaration
from dashboard.snapshots import ClusterStore

_METHOD = "proportional"
_DEFAULT_SEGMENT_BYTES = 1 << 30


def remembered(store: ClusterStore, topics: Iterable[str]) -> list[GroupOffset]:
    """The last known offset of every group on `topics`, from the findings and newer snapshots.

    A group that is gone today still counts there until it is waived. Raises StoreError.
    """
    wanted = sorted(set(topics))
    found: dict[tuple[str, str, int], GroupOffset] = {}
    analysis = store.latest("findings")
    after = ""
    if analysis is not None:
        table = store.read("findings", analysis, "holds")
        for row in table.filter(_among("topic", wanted)).to_pylist():
            _keep(found, row)
        details = store.manifest("findings", analysis).details
        after = str(details.get("snapshot_id", ""))
    for snapshot in store.ids("snapshots"):
        if snapshot >= after:
            for row in _group_offsets(store, snapshot, wanted):
                _keep(found, row)
    return [found[key] for key in sorted(found)]


def estimates(
    store: ClusterStore, facts: PlanFacts, resolved: Mapping[TopicPartition, ResolvedTarget]
) -> tuple[str | None, dict[TopicPartition, Estimate]]:
    """The newest analysis' id, and bytes freed at once per partition from its `curves`.

    A partition without a curve has no estimate: not measurable, never zero.
    """
    analysis = store.latest("findings")
    if analysis is None:
        return None, {}
    topics = sorted({key.topic for key in resolved})
    table = store.read("findings", analysis, "curves")
    knots: dict[TopicPartition, dict[int, list[tuple[int, int]]]] = {}
    for row in table.filter(_among("topic", topics)).to_pylist():
        key = TopicPartition(row["topic"], row["partition"])
        by_broker = knots.setdefault(key, {})
        by_broker.setdefault(row["broker_id"], []).append((row["offset"], row["bytes_below"]))
    found = {}
    for key, target in resolved.items():
        start = facts.partitions[key].log_start_offset
        if target.offset is not None and start is not None and key in knots:
            segment = _segment_bytes(facts, key.topic)
            found[key] = estimate(knots[key], start, target.offset, segment)
    return analysis, found


def estimate(
    knots: Mapping[int, list[tuple[int, int]]], start: int, target: int, segment_bytes: int
) -> Estimate:
    """Whole segments of each replica between `start` and `target`, by its curve's knots.

    Segments are taken to be full; of a replica's log at least one, the active one, stays.
    """
    replicas = {}
    for broker_id, curve in knots.items():
        points = sorted(curve)
        below = bytes_below(points, target) - bytes_below(points, start)
        left = points[-1][1] - bytes_below(points, start)
        closed = max(0, -(-left // segment_bytes) - 1)
        replicas[broker_id] = min(below // segment_bytes, closed) * segment_bytes
    return Estimate(sum(replicas.values()), _METHOD, replicas)


def bytes_below(points: list[tuple[int, int]], offset: int) -> int:
    """Bytes of a replica below an offset: a straight line between the knots around it."""
    if offset <= points[0][0]:
        return points[0][1]
    for (left, below), (right, above) in pairwise(points):
        if offset <= right:
            share = (offset - left) / (right - left) if right > left else 1.0
            return below + int((above - below) * share)
    return points[-1][1]


def declarations(
    settings: Settings, store: ClusterStore, topics: Iterable[str]
) -> dict[str, TopicDeclaration]:
    """The declaration of each topic that has one: the settings' first, then the page's."""
    from_page = [
        declaration(
            entry["glob"],
            {k: v for k, v in entry.items() if k != "glob"},
            f"declarations of {store.name}",
        )
        for entry in store.declarations()
    ]
    found = {}
    for topic in sorted(set(topics)):
        match = settings.declaration(topic) or next(
            (d for d in from_page if d.matches(topic)), None
        )
        if match is not None:
            found[topic] = match
    return found


def _group_offsets(store: ClusterStore, snapshot: str, topics: list[str]) -> list[dict[str, Any]]:
    dictionary = store.read("snapshots", snapshot, "topics", columns=["topic_no", "topic"])
    names = {r["topic_no"]: r["topic"] for r in dictionary.to_pylist() if r["topic"] in topics}
    if not names:
        return []
    rows = store.read("snapshots", snapshot, "group_offsets")
    found = rows.filter(_among("topic_no", sorted(names))).to_pylist()
    return [{**row, "topic": names[row["topic_no"]]} for row in found]


def _among(column: str, values: list[Any]) -> Any:
    """The condition that a column holds one of `values`."""
    import pyarrow.compute as pc  # slow to import; a store without tables needs none

    return pc.field(column).isin(values)


def _keep(found: dict[tuple[str, str, int], GroupOffset], row: Mapping[str, Any]) -> None:
    if row["committed_offset"] is not None:
        key = (row["group_id"], row["topic"], row["partition"])
        found[key] = GroupOffset(*key, row["committed_offset"])


def _segment_bytes(facts: PlanFacts, topic: str) -> int:
    value = facts.configs.get(topic, {}).get("segment.bytes")
    return max(1, int(value)) if value else _DEFAULT_SEGMENT_BYTES
