"""A receipt on the page: bytes, and how long answers took against their forecast."""

from __future__ import annotations

from dataclasses import replace

from dashboard.cli.purge.run import receipt as cli_receipt
from dashboard.purge.forecast.waits import CauseWaits, WaitErrors
from dashboard.purge.receipt.model import Receipt, RequestWait
from dashboard.ui import quality
from dashboard.ui.purge import run_view


def test_a_receipt_says_how_true_the_forecast_of_waiting_was() -> None:
    wait = RequestWait(1, 3, "behind", 30.0, 30.0, 30.25, 30.1, timed_out=True, inside=True)
    body = Receipt(final=True, predicted_bytes=1, freed_bytes=1, waits=(wait,))
    assert (
        "The slowest of 1 request took 30 s; predicted 30 s to 30 s, about 30 s: 1 of 1 inside; "
        "1 request timed out."
    ) in run_view.receipt_html(body, ())
    assert run_view._notes(replace(body, waits=()), ()) == []


def test_waits_stand_in_a_table_by_what_was_seen_before_sending() -> None:
    line = CauseWaits("keeps-up", 2, WaitErrors(6, 5, 5 / 6, 0.11, -0.3))
    (row,) = quality.waits_table([line]).to_dict("records")
    assert row == {
        "Seen before sending": "followers keep up", "Purges": 2, "Requests": 6,
        "Median error": "0.1 s", "Worst": "0.3 s sooner", "Inside the interval": "5 of 6",
    }  # fmt: skip
    on_time = replace(line.errors, worst_error_seconds=0.0)
    unheard = quality.waits_table([CauseWaits("another", 2, on_time)])
    assert unheard.loc[0, ["Seen before sending", "Worst"]].tolist() == ["another", "0 s"]


def test_a_receipt_that_nobody_follows_any_more_does_not_say_that_it_will_be_final() -> None:
    body = Receipt(predicted_bytes=1, freed_bytes=0)
    assert "final when the brokers have settled" in run_view.receipt_html(body, ())
    assert "so far; not final: watching ended" in run_view.receipt_html(body, (), over=True)
    final = run_view.receipt_html(replace(body, final=True), (), over=True)
    assert "Receipt</abbr></h2>" in final
    assert "not final: watching ended" in cli_receipt(body, (), over=True)
    assert "(so far)" in cli_receipt(body, ())
