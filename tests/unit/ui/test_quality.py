"""The chart and sentences of the estimators on the page Quality."""

from __future__ import annotations

from dashboard.purge.receipt import gap
from dashboard.purge.receipt.gap import Point
from dashboard.ui import quality
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.outcomes import kept, receipt, run


def point(method: str, predicted: int, freed: int) -> Point:
    return Point("1", NOW, method, predicted, freed)


def test_each_estimator_is_a_series_with_its_own_symbol_and_a_line_at_one() -> None:
    drawn = [point("proportional", 50, 10), point("segments", 10, 10)]
    option = quality.option(drawn, dark=False)
    assert [s["name"] for s in option["series"]] == ["segments", "proportional"]
    assert len({s["symbol"] for s in option["series"]}) == 2
    assert option["series"][1]["data"][0]["value"] == [NOW.timestamp() * 1000, 5.0]
    assert option["series"][0]["markLine"]["data"] == [{"yAxis": 1}]
    assert (option["yAxis"]["min"], option["yAxis"]["max"]) == (1 / 8, 8)  # 1 in the middle


def test_a_purge_that_freed_or_promised_nothing_has_no_ratio_and_is_said() -> None:
    drawn = [point("history", 0, 10), point("history", 10, 0), point("history", 10, 10)]
    assert len(quality.option(drawn, dark=True)["series"][0]["data"]) == 1
    assert "2 points with 0 bytes are not drawn" in quality.caption(drawn)
    assert "not drawn" not in quality.caption(drawn[2:])


def test_the_worst_error_says_its_direction() -> None:
    told = [quality.worst(error) for error in (-0.891, 0.02, 0.0, None)]
    assert told == ["89.1 % less", "2.0 % more", "0.0 %", None]


def test_topics_of_which_nothing_was_predicted_err_in_bytes() -> None:
    found = gap.outcomes([run("1", receipt(kept(0, 2048)))])
    (line,) = gap.by_method(found)
    assert quality.zeros(line).startswith("history: 0 bytes were predicted of 1 topic")
    assert "2.0 KiB" in quality.zeros(line)
