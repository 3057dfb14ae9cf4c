"""What is advised where partitions would time out: whom to fix, how long to wait, which mode."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dashboard.purge.forecast import forecast as slow_brokers
from dashboard.purge.forecast import text as forecast_text
from dashboard.purge.forecast.forecast import Forecast, SlowBroker, judge
from dashboard.settings.settings import PurgeSettings
from dashboard.store.tables import FINDING_TABLES
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.forecasts import EVEN, KEY, reading, state

PURGE = PurgeSettings(request_timeout=timedelta(seconds=30))
STILL = reading({1: 1000, 2: 1000, 3: 5}, {1: 1000, 2: 1000, 3: 5}, partition=state(isr=(1, 2)))


def foresee(found: Any) -> Forecast:
    return judge(found, {}, PURGE)


def test_nothing_is_advised_where_nothing_times_out() -> None:
    assert forecast_text.advised(foresee(reading(EVEN))) == []
    fetching = reading({1: 900, 2: 900, 3: 5}, {1: 900, 2: 900, 3: 99}, partition=state(isr=(1, 2)))
    assert forecast_text.advised(foresee(fetching)) == []


def test_the_broker_to_fix_is_named_with_what_the_analysis_knows_of_it() -> None:
    first, mode = forecast_text.advised(
        replace(foresee(STILL), slow={3: SlowBroker("throttle", None)})
    )
    assert first == (
        "Fix broker 3 first: its fetcher stands still (the newest analysis says: throttle), and "
        "1 partition would wait for it."
    )
    assert mode.startswith("Or choose 'leader only, verified'")
    silent = foresee(reading({1: 100, 2: 100, 3: "BROKER_UNREACHABLE"}, versions={1: 3}))
    assert "it does not answer, and" in forecast_text.advised(silent)[0]
    assert "'leader only':" in forecast_text.advised(silent)[-1]


def test_a_move_that_closes_says_until_when_to_wait() -> None:
    looks = {KEY: ((0.0, 60_100), (1.0, 60_000))}
    moving = reading(EVEN, moving=frozenset({KEY}), move_lags=looks)
    at = NOW + timedelta(minutes=10)
    assert (
        f"Wait until about {at:%H:%M} UTC: broker 1 moves"
        in (forecast_text.advised(foresee(moving))[0])
    )
    unknown = reading(EVEN, moving=frozenset({KEY}))
    assert "how long that takes is not known" in forecast_text.advised(foresee(unknown))[0]
    assert (
        "60\u202f000 records behind, closing at 100 records/s"
        in (forecast_text.details(foresee(moving))[0])
    )


def test_json_has_every_partitions_wait_and_the_advice() -> None:
    body = forecast_text.to_json(foresee(STILL))
    assert body["waits"] == [
        {"topic": KEY.topic, "partition": 0, "cause": "behind", "broker_id": 3,
         "low_seconds": 30.0, "likely_seconds": 30.0, "high_seconds": 30.25, "times_out": True}
    ]  # fmt: skip
    assert body["advice"] == forecast_text.advised(foresee(STILL))


class Store:
    """A store with one analysis that has a table of slow followers, or none."""

    def __init__(self, rows: list[dict[str, Any]] | None) -> None:
        self.rows = rows

    def latest(self, _kind: str) -> str | None:
        return None if self.rows is None else "analysis"

    def manifest(self, *_words: str) -> Any:
        return type("Manifest", (), {"tables": {slow_brokers.TABLE: 1} if self.rows else {}})

    def read(self, *words: Any, only: pc.Expression) -> pa.Table:
        schema = FINDING_TABLES[slow_brokers.TABLE].only(words[-1]).schema
        return pa.Table.from_pylist(self.rows or [], schema=schema).filter(only)


def follower(broker_id: int, cause: str | None, **change: Any) -> dict[str, Any]:
    row = {
        "topic": "t",
        "partition": 0,
        "broker_id": broker_id,
        "slow": True,
        "cause": cause,
        "observed_at": NOW,
    }
    return {**row, "catch_up_seconds": None, **change}


def found_of(rows: list[dict[str, Any]] | None, *broker_ids: int) -> dict[int, SlowBroker]:
    return slow_brokers.slow_brokers(Store(rows), set(broker_ids))  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [None, []])
def test_without_an_analysis_of_followers_nothing_is_known(rows: list[Any] | None) -> None:
    assert found_of(rows, 3) == {}


def test_the_cause_of_most_slow_followers_of_a_broker_counts() -> None:
    rows = [follower(3, cause) for cause in ("throttle", "broker", "throttle", None)]
    rows += [follower(2, "log dir", slow=False), follower(1, "rack")]
    assert found_of(rows, 2, 3) == {3: SlowBroker("throttle", None)}
    assert found_of([follower(3, None)], 3) == {3: SlowBroker(None, None)}


def test_a_broker_has_caught_up_when_its_last_slow_follower_has() -> None:
    ends = [follower(3, "throttle", catch_up_seconds=float(n)) for n in (60, 600)]
    at = NOW + timedelta(minutes=10)
    assert found_of(ends, 3) == {3: SlowBroker("throttle", at)}
    assert found_of([*ends, follower(3, "throttle")], 3)[3].caught_up_at is None
    (said, _) = forecast_text.advised(replace(foresee(STILL), slow=found_of(ends, 3)))
    assert said.endswith(
        f"Or wait until about {at:%H:%M} UTC: by the snapshots' pace it has caught up then."
    )
    past = {3: SlowBroker("throttle", NOW - timedelta(seconds=1))}
    assert "Or wait" not in forecast_text.advised(replace(foresee(STILL), slow=past))[0]
