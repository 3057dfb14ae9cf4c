"""Reclaimable: the table, filters that totals follow, the what-if, and declaring readers."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.purge.journal import Journal
from dashboard.snapshots import Store
from tests.pages.conftest import Open, said


def topics(app: AppTest) -> list[str]:
    return list(app.dataframe[0].value["Topic"])


def test_every_topic_is_listed_with_what_holds_the_rest(open_page: Open) -> None:
    table = open_page("reclaimable").dataframe[0].value.set_index("Topic")

    assert len(table) == 13
    assert table.loc["orders", "Held by"] == "billing-replay"
    assert table.loc["orders", "Guards"] == "✔ none"
    assert "no-committed-offset" in table.loc["audit-log", "Guards"]


def test_unmeasured_bytes_are_missing_not_zero(open_page: Open) -> None:
    table = open_page("reclaimable").dataframe[0].value.set_index("Topic")

    assert table.loc["audit-log"][["At once", "Later", "Held back"]].isna().all()


def test_without_sizes_the_totals_are_unknown(open_page: Open) -> None:
    app = open_page("reclaimable", "unmeasured")

    assert "<b>13 topics</b>: how many bytes they hold and give back is unknown" in said(app)
    sizes = app.dataframe[0].value.set_index("Topic")[["On disk", "Held back"]]
    assert sizes.isna().all().all()


def test_growth_says_where_there_is_not_enough_history(open_page: Open) -> None:
    app = open_page("reclaimable")
    table = app.dataframe[0].value.set_index("Topic")

    assert table.loc["orders", "Growth per hour"] == pytest.approx(76.8, abs=0.1)
    assert table["Growth per hour"].isna().sum() == 1
    assert "Growth per hour: not enough history yet for 1 topic;" in said(app)


def test_totals_follow_the_filters(open_page: Open) -> None:
    app = open_page("reclaimable")
    assert "13 topics" in said(app)

    app.text_input(key="topic").set_value("PAY").run()
    assert topics(app) == ["payments"]
    assert "<b>1 topic</b> with" in said(app)

    app.text_input(key="topic").set_value("").run()
    app.selectbox(key="group").select("ad-hoc").run()
    assert topics(app) == ["clickstream"]


def test_filters_come_from_the_address(open_page: Open) -> None:
    assert topics(open_page("reclaimable", group="old-reporting")) == ["reports-old"]


def test_filters_that_keep_nothing_say_so(open_page: Open) -> None:
    app = open_page("reclaimable")
    app.text_input(key="topic").set_value("nothing-like-it").run()

    assert "No topic passes the filters" in said(app)


def test_waiving_a_group_redraws_every_number(open_page: Open) -> None:
    app = open_page("reclaimable")
    before = app.dataframe[0].value.set_index("Topic").loc["orders"]
    app.checkbox(key="waive billing-replay").check().run()
    after = app.dataframe[0].value.set_index("Topic").loc["orders"]

    assert "if billing-replay were waived" in said(app)
    assert after["Reclaimable"] > before["Reclaimable"]
    assert after["Held back"] < before["Held back"]
    assert (before["Held by"], after["Held by"]) == ("billing-replay", "billing")
    assert topics(app)[:2] == ["clickstream", "orders"]


def test_declaring_readers_is_kept_with_name_and_date(open_page: Open, tmp_path: Path) -> None:
    app = open_page("reclaimable")
    app.multiselect(key="declare-topics").set_value(["clickstream"])
    app.text_input(key="declare-owner").set_value("team-web")
    app.checkbox(key="declare-readers").check()
    app.selectbox(key="declare-window").select("24h")
    app.text_input(key="declare-reason").set_value("asked both teams")
    app.form_submit_button[0].click().run()

    (row,) = Store(str(tmp_path / "data")).cluster().declarations()
    assert (row["declared_at"][-1], row["reason"]) == ("Z", "asked both teams")
    assert {k: row[k] for k in ("glob", "owner", "readers", "replay_window", "declared_by")} == {
        "glob": "clickstream",
        "owner": "team-web",
        "readers": "groups",
        "replay_window": "24h",
        "declared_by": "ada",
    }
    assert "Declared 1 topic" in said(app)
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    (entry,) = journal.entries()
    assert (entry.kind, entry.at) == ("declared", row["declared_at"])
    told = ("who", "reason", "topics", "readers", "replay_window", "owner")
    assert [entry.body[key] for key in told] == [
        "ada", "asked both teams", ["clickstream"], "groups", "24h", "team-web",
    ]  # fmt: skip
    assert entry.body["from_where"].startswith("dashboard on ")
    assert journal.verify().ok
    journal.close()

    app.switch_page("../pages/audit.py").run()
    audit = app.dataframe[0].value
    assert list(audit["Who"]) == ["ada"]
    assert "clickstream: its groups are all its readers" in audit["Said"][0]
    assert "asked both teams" in audit["Said"][0]


@pytest.mark.parametrize("missing", ["owner", "reason", "name"])
def test_a_declaration_without_an_owner_a_reason_or_a_name_is_not_saved(
    open_page: Open, tmp_path: Path, missing: str
) -> None:
    app = open_page("reclaimable")
    app.multiselect(key="declare-topics").set_value(["clickstream"])
    for field in ("owner", "reason", "name"):
        app.text_input(key=f"declare-{field}").set_value("" if field == missing else "told")
    app.form_submit_button[0].click().run()

    assert Store(str(tmp_path / "data")).cluster().declarations() == []
    assert "Not saved" in said(app)


def test_a_link_to_a_group_does_not_bring_the_last_visits_filter_back(open_page: Open) -> None:
    app = open_page("reclaimable", topic="payments")
    assert topics(app) == ["payments"]
    app.switch_page("../pages/overview.py").run()
    app.switch_page("../pages/reclaimable.py")
    app.query_params.pop("topic", None)  # as a browser's navigation does
    app.query_params["group"] = "old-reporting"
    app.run()

    assert topics(app) == ["reports-old"]
