"""What the newest analysis knows of one broker: its replicas' curves, growth, followers, holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dashboard.model import TopicPartition
from dashboard.snapshots import ClusterStore
from dashboard.system_topics import is_system_topic
from dashboard.triage.disk import Disk

if TYPE_CHECKING:  # pyarrow and numpy are slow to import
    import pyarrow as pa

    from dashboard.curve_tables import ReplicaCurves

_MOST_OFFERS = 5  # groups whose waiver is computed live


@dataclass(frozen=True)
class Known:
    """Tables of one analysis; `taken_at` is when its newest snapshot was."""

    broker_id: int
    analysis_id: str
    taken_at: datetime
    knots: pa.Table  # `curves` of this broker's replicas alone
    reclaimable: pa.Table
    growth: Sequence[Mapping[str, Any]]
    followers: Sequence[Mapping[str, Any]]
    blockers: pa.Table

    @cached_property
    def curves(self) -> ReplicaCurves:
        """The curve of every replica of this broker."""
        from dashboard.curve_tables import from_table

        return from_table(self.knots)

    @cached_property
    def keys(self) -> list[TopicPartition]:
        """Whose curve each one is."""
        places = self.curves.places
        names, numbers = places["topic"].to_pylist(), places["partition"].to_pylist()
        return list(map(TopicPartition, names, numbers))

    @property
    def log_dirs(self) -> dict[str, int]:
        """The broker's log dirs with the bytes of their replicas when they were measured."""
        sizes = self.curves.curves.below[self.curves.curves.last].tolist()
        found: dict[str, int] = {}
        for name, size in zip(self.curves.places["log_dir"].to_pylist(), sizes, strict=True):
            found[name] = found.get(name, 0) + size
        return found

    def on(self, disk: Disk) -> ReplicaCurves:
        """The curves of what lies in that log dir now, or lay there if it does not list it."""
        import numpy as np
        import pyarrow as pa

        from dashboard.curve_tables import from_table

        dirs, listed = self.curves.places["log_dir"].to_pylist(), disk.replicas
        there = [
            log_dir == disk.log_dir and (listed is None or key in listed)
            for key, log_dir in zip(self.keys, dirs, strict=True)
        ]
        curves = self.curves.curves
        kept = np.repeat(np.array(there, dtype=bool), curves.last - curves.first + 1)
        return from_table(self.knots.filter(pa.array(kept)))

    def topics(self, here: ReplicaCurves, groups: Collection[str]) -> set[str]:
        """Topics with something to free there by the committed target, or held by these groups."""
        import numpy as np

        bounds = {
            TopicPartition(row["topic"], row["partition"]): row
            for row in self.reclaimable.to_pylist()
        }
        places = here.places.select(["topic", "partition"]).to_pylist()
        rows = [bounds.get(TopicPartition(p["topic"], p["partition"]), {}) for p in places]
        starts, targets = (
            np.array([row.get(name) or 0 for row in rows], dtype=np.int64)
            for name in ("log_start_offset", "target_offset")
        )
        curves = here.curves
        some = (curves.freed(starts, targets).once_high > 0) | (
            (targets > starts) & ~curves.bounded(targets)
        )
        free = {p["topic"] for p, frees in zip(places, some.tolist(), strict=True) if frees}
        there = {p["topic"] for p in places}
        held = {
            row["topic"] for row in self.blockers.to_pylist() if row["group_id"] in groups
        } & there
        return {topic for topic in free | held if not is_system_topic(topic)}

    def dead_groups(self, here: ReplicaCurves) -> Sequence[Mapping[str, Any]]:
        """Groups without members that hold most back on these topics, a row each, most first."""
        there = set(here.places["topic"].to_pylist())
        found: dict[str, dict[str, Any]] = {}
        for row in self.blockers.to_pylist():
            if row["members"] or not row["bytes_freed_if_waived"] or row["topic"] not in there:
                continue
            group = found.setdefault(row["group_id"], {**row, "bytes_freed_if_waived": 0})
            group["bytes_freed_if_waived"] += row["bytes_freed_if_waived"]
            seen = [at for at in (group["last_commit_at"], row["last_commit_at"]) if at]
            group["last_commit_at"] = max(seen, default=None)
        order = sorted(found.values(), key=lambda g: (-g["bytes_freed_if_waived"], g["group_id"]))
        return order[:_MOST_OFFERS]


def known(store: ClusterStore, broker_id: int) -> Known:
    """Read it. Raises StoreError NO_ANALYSIS."""
    import pyarrow.compute as pc

    analysis = store.latest_analysis()

    def table(name: str, only: pc.Expression, columns: list[str] | None = None) -> pa.Table:
        return store.read("findings", analysis, name, columns, only=only)

    own = pc.field("broker_id") == broker_id
    targets = ["topic", "partition", "target", "target_offset", "log_start_offset"]
    return Known(
        broker_id,
        analysis,
        store.manifest("findings", analysis).taken_at,
        table("curves", own),
        table("reclaimable", pc.field("target") == "committed", targets),
        table("growth", own).to_pylist(),
        table("slow_followers", pc.field("slow")).to_pylist(),
        store.read("findings", analysis, "blockers"),
    )
