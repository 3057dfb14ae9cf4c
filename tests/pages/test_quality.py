"""Quality: how complete the numbers are, by table and broker."""

from __future__ import annotations

from tests.pages.conftest import Open, said


def test_a_broker_that_did_not_answer_is_listed_first_with_its_reason(open_page: Open) -> None:
    app = open_page("quality", "broker-missing")
    first = app.dataframe[0].value.iloc[0]

    assert "2 parts of the picture missing" in said(app)
    assert (first["Complete"], first["Broker"]) == ("✖", "3")
    assert first["Reason"] == "no answer within 10 s"
