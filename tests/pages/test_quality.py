"""Quality: how complete the numbers are, and how true past estimates were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import Journal
from dashboard.purge.receipt.model import RequestWait
from tests.pages.conftest import Open, said
from tests.pages.purges import Requests, queued
from tests.unit.purge.outcomes import kept, receipt


def test_a_broker_that_did_not_answer_is_listed_first_with_its_reason(open_page: Open) -> None:
    app = open_page("quality", "broker-missing")
    first = app.dataframe[0].value.iloc[0]

    assert "2 parts of the picture missing" in said(app)
    assert (first["Complete"], first["Broker"]) == ("✖", "3")
    assert first["Reason"] == "no answer within 10 s"


def test_without_a_finished_purge_it_says_when_errors_are_shown(open_page: Open) -> None:
    assert "No finished purge yet" in said(open_page("quality"))


def test_past_purges_show_each_estimators_error_and_coverage(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    first = queued(open_page, journal)
    journal.set_run(first, "done", utc_now())
    second = queued(open_page, journal)
    one = receipt(kept(100, 95, 90, 110), kept(0, 0, topic="idle"), kept(10, 10, method="segments"))
    two = receipt(kept(100, 50, 90, 110), hours=1)
    journal.write_receipt(first, one, utc_now())
    journal.write_receipt(second, two, utc_now())
    app = open_page("quality")
    rows = app.dataframe[1].value.to_dict("records")

    assert "No finished purge yet" not in said(app)
    assert [row["Estimator"] for row in rows] == ["segments", "history"]
    assert rows[0] == {
        "Estimator": "segments", "Purges": 1, "Median error": "0.0 %", "Worst": "0.0 %",
        "Inside the interval": "1 of 1",
    }  # fmt: skip
    assert (rows[1]["Purges"], rows[1]["Worst"]) == (2, "50.0 % less")
    assert (rows[1]["Median error"], rows[1]["Inside the interval"]) == ("27.5 %", "2 of 3")
    assert "history: 0 bytes were predicted of 1 topic" in said(app)
    assert len(app.get("echarts_chart")) == 1


@pytest.mark.further
def test_past_purges_show_how_true_their_waits_were(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    assert "No purge has waited for all replicas yet" in said(open_page("quality"))
    run_id = queued(open_page, journal)
    journal.set_run(run_id, "done", utc_now())
    soon = RequestWait(1, 1, "keeps-up", 0.0, 0.333, 0.75, 0.4, timed_out=False, inside=True)
    late = replace(soon, waited_seconds=2.333, inside=False)
    journal.write_receipt(run_id, replace(receipt(), waits=(soon, late)), utc_now())
    app = open_page("quality")

    assert app.dataframe[-2].value.to_dict("records") == [
        {"Seen before sending": "followers keep up", "Purges": 1, "Requests": 2,
         "Median error": "1 s", "Worst": "2 s later", "Inside the interval": "1 of 2"}
    ]  # fmt: skip


def test_what_brokers_count_of_delete_records_is_told_by_broker(open_page: Open) -> None:
    app = open_page("quality")
    rows = app.dataframe[-1].value.to_dict("records")
    assert [row["Broker"] for row in rows] == ["1", "2", "3"]
    names = ("An hour", "Waiting", "Mean", "99 of 100 within")
    assert {row["Broker"]: [row[name] for name in names] for row in rows} == {
        "1": ["10", "1", "4 ms", "498 ms"],
        "2": ["—", "0", "—", "—"],
        "3": ["30", "3", "11 ms", "498 ms"],
    }
    assert "DeleteRecords requests, as brokers count them" in said(app)
