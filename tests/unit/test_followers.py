"""The sentence an operator would say of slow followers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from dashboard.store.tables import FINDING_TABLES
from dashboard.views.followers import slow_units

_SCHEMA = FINDING_TABLES["slow_followers"].schema


def followers(count: int, **columns: Any) -> list[dict[str, Any]]:
    common = {
        "topic": "t", "broker_id": 3, "slow": True, "alive": True, "append_per_second": 100.0,
        "cause": "log dir", "reason": "broker 3 is slow on disk /d2: 12 of 40 replicas",
    }  # fmt: skip
    return [{**common, "partition": number, **columns} for number in range(count)]


def said(*rows: dict[str, Any]) -> list[str]:
    return [unit.text for unit in slow_units(pa.Table.from_pylist(list(rows), schema=_SCHEMA))]


def test_lag_and_pace_are_medians_of_its_slow_replicas() -> None:
    rows = followers(4, lag_seconds=41.0, lag_per_second=5.0)
    rows += followers(1, lag_seconds=4000.0, lag_per_second=-500.0)
    assert said(*rows) == [
        "broker 3 is slow on disk /d2: 12 of 40 replicas, 41 s behind, falling 3 s a minute"
    ]


@pytest.mark.parametrize(
    ("columns", "ends"),
    [
        ({"lag_per_second": 0.5}, "9 s behind, steady"),
        ({"lag_per_second": -50.0, "catch_up_seconds": 18.0},
         "9 s behind, catching up 30 s a minute, level in 18 s"),
        ({"trend": "stuck", "lag_per_second": 100.0}, "9 s behind, standing still"),
        ({"alive": False, "lag_per_second": 100.0}, "9 s behind"),
        ({"lag_seconds": None, "lag_records": 1200}, "1\u202f200 records behind"),
        ({"lag_seconds": None}, "12 of 40 replicas"),
    ],
)  # fmt: skip
def test_how_it_goes_on(columns: dict[str, Any], ends: str) -> None:
    (sentence,) = said(*followers(2, **{"lag_seconds": 9.0} | columns))
    assert sentence.endswith(ends)


def test_each_reason_has_its_sentence_most_replicas_first() -> None:
    down = {"cause": "broker down", "reason": "broker 2 does not answer", "alive": False}
    alone = {"cause": "partition", "reason": "no broker, disk or rack stands out"}
    healthy = followers(5, slow=False, cause=None, reason=None)
    assert said(*followers(1, **alone), *followers(3, **down), *healthy) == [
        "broker 2 does not answer: 3 replicas",
        "no broker, disk or rack stands out: t-0 on broker 3",
    ]
    assert said(*healthy) == []
