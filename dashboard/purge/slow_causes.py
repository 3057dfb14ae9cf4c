"""Why the newest analysis calls a broker's followers slow: what a live look cannot tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from dashboard.errors import StoreError
from dashboard.snapshots import ClusterStore

TABLE = "slow_followers"


def slow_causes(store: ClusterStore, broker_ids: Collection[int | None]) -> dict[int, str]:
    """Broker id -> the cause that most of its slow followers have; brokers without one lack.

    Empty without an analysis, or one that did not look at followers.
    """
    try:
        analysis_id = store.latest("findings")
        if analysis_id is None or TABLE not in store.manifest("findings", analysis_id).tables:
            return {}
        rows = store.read("findings", analysis_id, TABLE).to_pylist()
    except StoreError:
        return {}
    found: dict[int, Counter[str]] = {}
    for row in rows:
        if row["slow"] and row["cause"] and row["broker_id"] in broker_ids:
            found.setdefault(row["broker_id"], Counter())[row["cause"]] += 1
    return {b: counted.most_common(1)[0][0] for b, counted in sorted(found.items())}
