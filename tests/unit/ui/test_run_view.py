"""A receipt on the page: bytes, and how long answers took against their forecast."""

from __future__ import annotations

from dashboard.ui.purge import run_view
from dashboard.ui.quality import wait_table


def test_a_receipt_says_how_true_the_forecast_of_waiting_was() -> None:
    wait = {
        "leader_id": 1, "partitions": 3, "cause": "behind", "low_seconds": 30.0,
        "likely_seconds": 30.0, "high_seconds": 30.25, "waited_seconds": 30.1,
        "timed_out": True, "inside": True,
    }  # fmt: skip
    body = {"final": True, "predicted_bytes": 1, "freed_bytes": 1, "waits": [wait]}
    assert (
        "The slowest of 1 request took 30 s; predicted 30 s to 30 s, about 30 s: 1 of 1 inside; "
        "1 request timed out."
    ) in run_view.receipt_html(body)
    assert "predicted" not in "".join(run_view._notes({**body, "waits": []}))
    assert run_view._notes({k: v for k, v in body.items() if k != "waits"}) == []


def test_waits_stand_in_a_table_by_what_was_seen_before_sending() -> None:
    line = {
        "cause": "keeps-up", "purges": 2, "requests": 6, "inside": 5, "coverage": 5 / 6,
        "median_error_seconds": 0.11, "worst_error_seconds": -0.3,
    }  # fmt: skip
    (row,) = wait_table.table([line]).to_dict("records")
    assert row == {
        "Seen before sending": "followers keep up", "Purges": 2, "Requests": 6,
        "Median error": "0.1 s", "Worst": "0.3 s sooner", "Inside the interval": "5 of 6",
    }  # fmt: skip
    unheard = wait_table.table([{**line, "cause": "another", "worst_error_seconds": 0.0}])
    assert unheard.loc[0, ["Seen before sending", "Worst"]].tolist() == ["another", "0 s"]
