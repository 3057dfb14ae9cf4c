"""What the newest analysis knows of brokers with slow followers: what a live look cannot tell."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.errors import StoreError
from dashboard.snapshots import ClusterStore

TABLE = "slow_followers"
_COLUMNS = ["broker_id", "slow", "cause", "catch_up_seconds", "observed_at"]


@dataclass(frozen=True, slots=True)
class SlowBroker:
    """Why most slow followers of a broker are slow, and when the last one has caught up.

    `caught_up_at` is None where one of them has no end in sight.
    """

    cause: str | None
    caught_up_at: datetime | None


def slow_brokers(store: ClusterStore, broker_ids: Collection[int | None]) -> dict[int, SlowBroker]:
    """Those of `broker_ids` that have slow followers.

    Empty without an analysis, or with one that did not look at followers.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array({broker for broker in broker_ids if broker is not None}, pa.int32())
    try:
        analysis_id = store.latest("findings")
        if analysis_id is None or TABLE not in store.manifest("findings", analysis_id).tables:
            return {}
        chosen = pc.field("slow") & pc.field("broker_id").isin(wanted)
        rows = store.read("findings", analysis_id, TABLE, _COLUMNS, only=chosen).to_pylist()
    except StoreError:
        return {}
    slow: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        slow[row["broker_id"]].append(row)
    return {broker_id: _told(found) for broker_id, found in sorted(slow.items())}


def _told(rows: list[Mapping[str, Any]]) -> SlowBroker:
    causes = Counter(row["cause"] for row in rows if row["cause"])
    ends = [
        row["observed_at"] + timedelta(seconds=row["catch_up_seconds"])
        for row in rows
        if row["observed_at"] is not None and row["catch_up_seconds"] is not None
    ]
    return SlowBroker(
        causes.most_common(1)[0][0] if causes else None,
        max(ends) if len(ends) == len(rows) else None,
    )
