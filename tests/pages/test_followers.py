"""Followers: who is slow and why, how far, since when, and who holds the low watermark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.store.snapshots import Store
from dashboard.views.followers import slow_units
from tests.pages.conftest import Open, said
from tests.support import sample_rich


def replicas(app: AppTest) -> list[tuple[str, int]]:
    table = app.dataframe[0].value
    return list(zip(table["Replica"], table["Broker"], strict=True))


def test_sentences_heat_map_and_table_tell_who_is_slow_and_why(
    open_page: Open, tmp_path: Path
) -> None:
    app = open_page("followers", "rich")
    text, table = said(app), app.dataframe[0].value
    cluster = Store(str(tmp_path / "data")).cluster()
    units = slow_units(cluster.read("findings", cluster.latest_analysis(), "slow_followers"))

    assert "19 of 120 followers are slow" in text
    places = re.findall(r"broker (\d)</a> · (\S+?)</td>(?:<td.*?>(.*?)</td>){5}", text)
    assert places[0][:2] == ("3", "/d2"), "where most are slow stands first"
    assert len(units) == 3
    for unit in units:  # as the command line says them
        assert f"<p>⚠ {unit.text}.</p>" in text
    assert 'class="lw-lag-3" title="clickstream, broker 2: 6 of 6 followers slow' in text
    assert ">⚠ 2 min</td>" in text
    assert '<td class="lw-lag-unknown" title="payments, broker 1:' in text
    assert ">⚠ 1\u202f200 rec.</td>" in text
    assert ">?</td>" in text
    assert replicas(app)[0] == ("clickstream-0", 2)
    assert list(table["Seconds"].dropna()) == sorted(table["Seconds"].dropna(), reverse=True)
    assert (table.iloc[0]["Trend"], table.iloc[0]["Cause"]) == ("↗ catching up", "throttle")
    silent = table.set_index("Replica").loc["payments-1"]
    assert silent.isna()["Seconds"]
    assert (silent["Records"], silent["Trend"]) == (1200, "■ stuck")


def test_a_topic_shows_its_slow_replicas_and_who_holds_its_low_watermark(open_page: Open) -> None:
    app = open_page("followers", "rich", topic="orders", broker="3", cause="log dir")
    text, row = said(app), app.dataframe[0].value.iloc[0]

    assert {name.rsplit("-", 1)[0] for name, _ in replicas(app)} == {"orders"}
    assert (row["Replica"], row["Log start"]) == ("orders-4", "4\u202f800 records, holds")
    lately = list(row["Lag lately"])
    assert (lately[0], lately[-1], lately) == (2_100, 21_000, sorted(lately))
    assert "low watermark</abbr> of orders" in text
    assert "Broker 3, in 3 of 6 partitions: a wait-all purge waits there." in text
    assert "<td>4</td><td>broker 3</td><td>4\u202f800 records behind the leader" in text
    assert "<h2>orders-4 on broker 3</h2>" in text
    assert "42 s behind (21\u202f000 records), too far behind for 9 min; ↘ falling behind." in text
    assert "log dir: broker 3 is slow on disk /d2: 12 of 40 replicas." in text

    app.selectbox(key="broker").select("1").run()
    assert "No slow follower passes the filters" in said(app)

    app.selectbox(key="topic").select("audit-log").run()
    assert "Not known of broker 1: no log start was read there." in said(app)


@pytest.mark.further
def test_nothing_slow_is_a_sentence(open_page: Open) -> None:
    app = open_page("followers", "calm")
    text = said(app)

    assert "None of 120 followers is slow" in text
    assert "The furthest is 42 s behind:" in text
    assert len(app.dataframe) == 0


@pytest.mark.further_but("older-These findings are older than this page")
@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("no-analysis", "The first analysis is not finished"),
        ("older", "These findings are older than this page"),
        ("broker-missing", "Lag unknown: broker 3 does not answer, and no earlier answer is known"),
    ],
)
def test_each_state_is_designed(open_page: Open, variant: str | None, expected: str) -> None:
    assert expected in said(open_page("followers", variant))


def test_of_a_broker_that_is_down_no_log_start_is_known(open_page: Open) -> None:
    text = said(open_page("followers", "broker-missing"))

    assert "Nobody: every known log start is at its leader's. Not known of broker 3:" in text
    assert "broker 3 does not answer: 41 replicas." in text


def test_odd_names_are_text(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sample_rich.followers

    def followers(rows: Any) -> Any:
        odd = "rack <b onclick=x>'`$(id)"
        return [row | {"reason": odd} if row["slow"] else row for row in plain(rows)]

    monkeypatch.setattr(sample_rich, "followers", followers)
    html = said(open_page("followers", "rich"))

    assert "<b onclick" not in html
    assert "rack &lt;b onclick=x&gt;" in html


@pytest.mark.further
def test_the_overview_leads_here(open_page: Open) -> None:
    app = open_page("overview", "rich")
    links = {link.label: link.proto for link in app.page_link}
    (label,) = (label for label in links if label.startswith("broker 3 is slow on disk"))

    assert links[label].page == "followers"
    assert links[label].query_string == "cause=log+dir"
