"""Growth: when each disk is full, what fills it, and the what-if that redraws at once."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.core.clock import utc_now
from dashboard.ui.growth import advice
from dashboard.views import headline
from tests.pages.conftest import Open, copied, said
from tests.support import sample_store


def table(app: AppTest) -> str:
    return next(block.value for block in app.html if "<table" in str(block.value))


def test_the_first_disk_to_be_full_is_named_with_its_interval(open_page: Open) -> None:
    app = open_page("growth")
    text = said(app)

    assert "Broker 1 · /d1</strong> is first: <b>full in 40 h (32 h to 53 h)" in text
    assert "not filling up" in table(app) and "not before 7 d" in table(app)
    assert "Full then" not in table(app), "nothing is asked yet"
    topics = app.dataframe[0].value
    assert list(topics["Topic"])[:3] == ["the whole disk", "not Kafka's logs", "orders"]
    assert len(topics) == 14
    whole, *growth = topics["Growth/h"]
    assert growth[1:] == sorted(growth[1:], reverse=True)
    assert sum(growth) == pytest.approx(whole)


def test_a_shorter_retention_redraws_every_log_dir(open_page: Open) -> None:
    app = open_page("growth")
    app.multiselect(key="growth-kept").set_value(["clickstream"]).run()
    app.selectbox(key="growth-keep").select("1 day").run()

    text = said(app)
    assert "With what is chosen " in text and "leave now; " in text
    assert table(app).count("Full then in") == 1
    assert "Retention of 1 d: What came before the window of the rates" in text
    before = table(app)
    app.selectbox(key="growth-keep").select("2 days").run()
    assert table(app) != before


def test_a_compacted_topic_has_no_retention_to_shorten(open_page: Open) -> None:
    app = open_page("growth")
    assert "inventory" not in app.multiselect(key="growth-kept").options
    assert "customer-state" in app.multiselect(key="growth-kept").options


@pytest.mark.further
def test_a_waiver_frees_bytes_and_leaves_growth_as_it_is(open_page: Open) -> None:
    app = open_page("growth")
    app.multiselect(key="growth-waived").set_value(["billing-replay"]).run()

    text = said(app)
    assert "Waived: billing-replay." in text
    assert "leave now" in text and "0 B leave now" not in text


@pytest.mark.further
def test_a_policy_says_unknown_until_there_is_an_earlier_analysis(
    open_page: Open, tmp_path: Path
) -> None:
    app = open_page("growth")
    app.toggle(key="growth-purge-all").set_value(True).run()
    assert "it takes a kept analysis, 10 minutes to 24 hours older" in said(app)
    assert "when the first disk is full then is not known, not before " in said(app)
    assert "<b>unknown</b>" in table(app)

    data = tmp_path / "data"
    now = utc_now()
    for at in (now - timedelta(hours=5), now):
        sample_store.write(data, now=at)
    app = open_page("growth")
    app.toggle(key="growth-purge-all").set_value(True).run()
    assert "as it grew over the last 5 h" in said(app)
    assert "<b>unknown</b>" not in table(app)
    assert "1 topic too new to tell" in said(app)
    assert " would be first, full in " in said(app)


def test_without_findings_it_says_what_is_missing(open_page: Open) -> None:
    assert "The first analysis is not finished" in said(open_page("growth", "no-analysis"))


def test_without_log_dirs_it_says_which_right_is_missing(open_page: Open) -> None:
    text = said(open_page("growth", "unmeasured"))
    assert "No log dir is known" in text and "DESCRIBE on the cluster" in text


def test_old_findings_offer_no_shorter_retention(open_page: Open) -> None:
    app = open_page("growth", "stale")
    text = said(app)
    assert re.search(r"By the snapshot of 1[7-9] min ago: 2 of 5 topics", text)
    assert not copied(app)
    assert "No change is given: the newest findings are of" in text


def test_the_change_goes_from_an_open_page_once_its_snapshot_is_too_old(
    open_page: Open, redrawn: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_page("growth")
    assert copied(app) and advice.AGAIN.total_seconds() in redrawn
    monkeypatch.setattr(advice, "utc_now", lambda: utc_now() + timedelta(minutes=5))
    assert "No change is given: the newest findings are of" in said(app.run()) and not copied(app)


@pytest.mark.further
def test_a_retention_that_fits_stands_below_with_the_change_as_text(open_page: Open) -> None:
    app = open_page("growth")
    assert "2 of 5 topics with declared readers may keep records for less" in said(app)
    shown = app.dataframe[-1].value
    assert list(shown["Would fit"])[:2] == ["3 d", "3 d"]
    assert list(shown["Verdict"])[-1] == "? not known"
    assert copied(app)[0].endswith("--add-config retention.ms=259200000")
    app.selectbox(key="retention-form").select("terraform").run()
    assert 'resource "kafka_topic" "orders"' in copied(app)[0]


@pytest.mark.further
def test_the_chosen_disk_is_drawn_over_the_time_that_is_chosen(
    open_page: Open, tmp_path: Path
) -> None:
    for hours in (30, 3, 0):
        sample_store.write(tmp_path / "data", now=utc_now() - timedelta(hours=hours))
    app = open_page("growth", None)
    assert "measured less than twice" not in said(app)
    app.segmented_control(key="disk-span").set_value("1 h").run()
    assert "measured less than twice in that time" in said(app)


def test_where_the_slope_may_as_well_be_none_no_day_is_told(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headline, "dated", lambda _: False)
    app = open_page("growth")
    said_today = said(app).split("Log dirs, the first")[0]
    assert "may fill up" in said_today and "full in" not in said_today


@pytest.mark.further
def test_every_change_comes_as_one_file_of_the_chosen_form(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, Any] = {}

    def button(label: str, make: Any, **options: Any) -> bool:
        made[options["file_name"]] = make
        return False

    monkeypatch.setattr(st, "download_button", button)
    app = open_page("growth")
    assert made["lowwater-retention-prod-eu.csv"]().count("\n") == 1 + len(app.dataframe[-1].value)
    app.selectbox(key="retention-form").select("strimzi").run()
    text = made["lowwater-retention-prod-eu.yaml"]()
    assert text.count("kind: KafkaTopic") == 2
    monkeypatch.setattr(advice, "utc_now", lambda: utc_now() + timedelta(minutes=5))
    assert "no change is given" in made["lowwater-retention-prod-eu.yaml"]()
