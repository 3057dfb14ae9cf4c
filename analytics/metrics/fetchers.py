"""The lag that brokers' fetchers see, beside the one that offsets show (FetcherLagMetrics).

A fetcher counts up to the high watermark that its leader told in the last answer
(AbstractFetcherThread), offsets up to the leader's log end. A replica that no fetcher copies is far
behind by its offsets, and none tells of it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.replicas.points import matched
from dashboard.core.arrow import column
from dashboard.domain.metric_names import CONSUMER_LAG, whole

_REPLICA = ["topic", "partition", "broker_id"]


def fetcher_lags(followers: pa.Table, metrics: pa.Table, telling: frozenset[int]) -> pa.Array:
    """Records behind, by the fetchers of each of `followers` (topic, partition, broker_id).

    `metrics`: `counter_tables.metrics` of the snapshot; `telling`: brokers that told of their
    fetchers. 0: none of them tells more than 0; null: the broker told of no fetcher.
    """
    lags = metrics.filter(
        pc.and_(pc.equal(metrics["name"], CONSUMER_LAG), metrics["partition"].is_valid())
    )
    most = lags.group_by(_REPLICA).aggregate([("value", "max")])
    row = matched(followers, most, _REPLICA)
    value = np.append(most["value_max"].to_numpy(), 0.0)[row]
    told = np.isin(column(followers, "broker_id").to_numpy(), sorted(telling))
    return pa.array(whole(np.nan_to_num(value)), mask=~told)
