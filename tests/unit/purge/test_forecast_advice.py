"""What is advised where partitions would time out: whom to fix, how long to wait, which mode."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dashboard.purge import forecast_text, slow_causes
from dashboard.purge.forecast import Forecast, judge
from dashboard.settings import PurgeSettings
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
    first, mode = forecast_text.advised(replace(foresee(STILL), causes={3: "throttle"}))
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
        return type("Manifest", (), {"tables": {slow_causes.TABLE: 1} if self.rows else {}})

    def read(self, *_words: str) -> pa.Table:
        return pa.Table.from_pylist(self.rows or [])


@pytest.mark.parametrize("rows", [None, []])
def test_without_an_analysis_of_followers_no_cause_is_known(
    rows: list[dict[str, Any]] | None, tmp_path: Path
) -> None:
    assert slow_causes.slow_causes(Store(rows), {3}) == {}  # type: ignore[arg-type]


def test_the_cause_of_most_slow_followers_of_a_broker_counts() -> None:
    causes = ["throttle", "broker", "throttle", None]
    rows = [{"broker_id": 3, "slow": True, "cause": cause} for cause in causes]
    rows += [
        {"broker_id": 2, "slow": False, "cause": "log dir"},
        {"broker_id": 1, "slow": True, "cause": "rack"},
    ]
    assert slow_causes.slow_causes(Store(rows), {2, 3}) == {3: "throttle"}  # type: ignore[arg-type]
