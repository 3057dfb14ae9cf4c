"""Purge, step 1: every kind of target that the page offers reaches the plan as it was chosen."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dashboard.core.clock import parse_time, utc_now
from dashboard.core.errors import ClusterError
from dashboard.purge.evidence import look
from dashboard.purge.evidence.look import Oldest
from dashboard.ui.components import markup
from tests.pages.conftest import Open, read, said
from tests.pages.purges import SENTENCE, Requests


@pytest.mark.further_but("High watermark-None-high-watermark", "Keep the newest-typed4-keep:10GiB")
@pytest.mark.parametrize(
    ("kind", "typed", "target"),
    [
        ("Committed by all", None, "committed"),
        ("High watermark", None, "high-watermark"),
        ("Retention", None, "retention"),
        ("Keep the newest", ("target-keep", "24h"), "keep:24h"),
        ("Keep the newest", ("target-keep", " 10GiB "), "keep:10GiB"),
        ("Keep the newest", ("target-keep", "2 hours"), "keep:2h"),
        ("Keep the newest", ("target-keep", "10GB"), "keep:10000000000B"),
        ("A time", ("target-time", "2026-03-01T04:00Z"), "timestamp:2026-03-01T04:00:00.000Z"),
        ("A time", ("target-time", "2026-03-01 04:00"), "timestamp:2026-03-01T04:00:00.000Z"),
    ],
)
def test_a_chosen_target_is_planned(
    open_page: Open, requests: Requests, kind: str, typed: tuple[str, str] | None, target: str
) -> None:
    app = open_page("purge")
    app.multiselect(key="plan-topics").set_value(["orders"]).run()
    app.radio(key="target-kind").set_value(kind).run()
    if typed:
        app.text_input(key=typed[0]).set_value(typed[1]).run()
    app.button(key="preview").click().run()
    assert [request.target.text for request in requests] == [target]


@pytest.mark.further_but("10")
@pytest.mark.parametrize("typed", ["10", "0h", "-1", "yesterday"])
def test_what_cannot_be_kept_is_told_and_nothing_is_planned(
    open_page: Open, requests: Requests, typed: str
) -> None:
    app = open_page("purge", topics="orders")
    requests.clear()
    app.radio(key="target-kind").set_value("Keep the newest").run()
    app.text_input(key="target-keep").set_value(typed).run()
    assert f"'{typed}' is neither a time nor a size to keep" in said(app)
    assert requests == []


@pytest.mark.further
def test_a_time_ago_becomes_the_time_that_is_planned(open_page: Open, requests: Requests) -> None:
    app = open_page("purge", topics="orders")
    requests.clear()
    app.radio(key="target-kind").set_value("A time").run()
    app.text_input(key="target-time").set_value("2 hours ago").run()
    shown = str(app.text_input(key="target-time").value)
    assert timedelta(0) <= utc_now() - timedelta(hours=2) - parse_time(shown) < timedelta(minutes=5)
    app.run()
    (request,) = requests
    assert request.target.at == parse_time(shown)
    assert SENTENCE in said(app.run()), "the preview stays: its time does not move"


def test_a_time_is_chosen_by_one_click_and_said_by_the_readers_clock(
    open_page: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_page("purge", topics="orders")
    requests.clear()
    app.radio(key="target-kind").set_value("A time").run()
    monkeypatch.setattr(markup, "local", lambda moment: moment.astimezone(ZoneInfo("Asia/Tokyo")))
    text = said(app.button(key="time-24 h ago").click().run())
    (request,) = requests
    at = request.target.at
    assert at is not None
    assert timedelta(0) <= utc_now() - timedelta(hours=24) - at < timedelta(minutes=5)
    here = at.astimezone(ZoneInfo("Asia/Tokyo"))
    assert f"1 d ago: {here:%Y-%m-%d %H:%M:%S} JST, {at:%Y-%m-%d %H:%M:%S} UTC" in text


def test_the_preview_says_what_no_group_covers(open_page: Open, requests: Requests) -> None:
    text = said(open_page("purge", topics="orders"))
    assert "Groups of orders: 1 of 2 partitions without any, so unknown" in text
    assert "billing never committed on partition 1, so unknown" in text


def test_the_oldest_record_of_the_chosen_topics_is_told_when_it_is_asked_for(
    open_page: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    at = utc_now() - timedelta(days=3)

    def found(*words: Any) -> tuple[Oldest, ...]:
        asked.append(words[3])
        return tuple(
            Oldest(topic, at, 2)
            if topic == "orders"
            else Oldest(topic, None, None, f"{topic}-0: X")
            for topic in words[3]
        )

    monkeypatch.setattr(look, "oldest", found)
    app = open_page("purge", topics="orders,payments")
    app.radio(key="target-kind").set_value("A time").run()
    assert asked == [] and "oldest record of" not in said(app)
    text = read(said(app.button(key="time-oldest").click().run()))
    assert set(asked[0]) == {"orders", "payments"}
    assert f"The oldest record of orders is of 3 d ago: {at:%Y-%m-%d %H:%M:%S} UTC" in text
    assert "in partition 2" in text
    assert "The oldest record of payments is unknown. Not all of it could be read" in text


def test_where_the_cluster_does_not_answer_the_oldest_record_is_an_error_in_words(
    open_page: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: Any) -> tuple[Oldest, ...]:
        raise ClusterError("no broker answers", "Look at the brokers.", code="CLUSTER_UNREACHABLE")

    monkeypatch.setattr(look, "oldest", silent)
    app = open_page("purge", topics="orders")
    app.radio(key="target-kind").set_value("A time").run()
    assert "no broker answers" in said(app.button(key="time-oldest").click().run())


def test_records_are_archived_first_in_the_place_that_the_settings_name(
    open_page: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app = open_page("purge", topics="orders")
    assert not [box for box in app.checkbox if box.key == "plan-archive"]
    file = tmp_path / "archives.toml"
    file.write_text('[archive]\nurl = "s3://bucket/kept"\n')
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    app = open_page("purge", topics="orders")
    requests.clear()
    text = said(app.checkbox(key="plan-archive").check().run())
    assert [request.archive for request in requests] == ["s3://bucket/kept"]
    assert "records that are deleted come back from their archive alone" in text
    assert "ARCHIVE s3://bucket/kept: at most" in text


def test_nothing_is_planned_without_the_archive_that_was_asked_for(
    open_page: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "archives.toml"
    file.write_text(f'[archive]\nurl = "{tmp_path}/volume"\n')
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    app = open_page("purge", topics="orders")
    requests.clear()
    text = said(app.checkbox(key="plan-archive").check().run())
    assert f"the archive folder {tmp_path}/volume is not there" in text
    assert requests == []
