"""The Overview: its sentence, what leads on from it, and every state it may be in."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError
from dashboard.domain.model import Broker
from dashboard.history.pruning import prune
from dashboard.purge.journal.journal import Journal
from dashboard.store import attempts
from dashboard.store.snapshots import Store
from dashboard.ui.session import context, routes
from dashboard.views import formats, headline
from dashboard.views.facts import known_total
from tests.pages.conftest import Open, said
from tests.pages.purges import Requests, queued
from tests.support import sample_store


def test_the_sentence_tells_consumed_declared_and_what_a_waiver_adds(open_page: Open) -> None:
    text = said(open_page())

    assert "30.2 GiB</abbr></strong> are consumed by every known group" in text
    assert "17.8 GiB</abbr></strong> of it in topics whose <abbr" in text
    assert ">readers are declared</abbr>." in text and ">waived</abbr>." in text
    assert "6.8 GiB</abbr></strong> more would leave at once if <b>billing-replay</b> were" in text


def test_help_explains_every_word(open_page: Open) -> None:
    app = open_page().button(key="lw-help").click().run()
    assert "the lowest log start offset of all alive replicas" in said(app)


@pytest.mark.further_but("overview--costs0")
@pytest.mark.parametrize(
    ("page", "name", "costs"),
    [
        (
            "overview", "",
            ["costs about 2.41 EUR a month.", "read by every group (2.41 EUR a month)",
             "whose readers are declared, 17.8 GiB (1.43 EUR a month)",
             "that would free 6.8 GiB at once (0.54 EUR a month)"],
        ),
        (
            "reclaimable", "",
            ["costs about 2.41 EUR a month.", "would give back 168.0 KiB (<0.01 EUR a month)"],
        ),
        ("topic", "orders", ["costs about 1.44 EUR", "6.8 GiB at once (0.54 EUR a month)"]),
        ("group", "billing-replay", ["</abbr> (0.54 EUR a month) would leave at once"]),
        ("broker", "3", ["EUR a month) can leave there at once"]),
        ("growth", "", ["EUR a month) on all replicas"]),
        ("orphans", "", ["</strong> (0.16 EUR a month) in 10 orphans"]),
    ],
)  # fmt: skip
def test_where_storage_has_a_price_what_can_be_given_back_has_one(  # noqa: PLR0917 a table's columns
    open_page: Open,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    page: str,
    name: str,
    costs: list[str],
) -> None:
    variant = "rich" if page == "orphans" else "plain"
    assert " a month" not in said(open_page(page, variant, name=name))
    file = tmp_path / "lowwater.toml"
    file.write_text("[price]\nper_gib_month = 0.08\n")
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    text = html.unescape(said(open_page(page, None, name=name)))
    assert [cost for cost in costs if cost not in text] == []


def test_without_sizes_nothing_is_told_as_zero(open_page: Open) -> None:
    text = said(open_page(variant="unmeasured"))

    assert "How many bytes can be given back is <b>unknown</b>" in text
    assert re.search(r"Every known group has passed [0-9\u202f]{7,} records at most", text)
    assert "Plan the safest topics" in text
    assert text.count("unknown </span>") + text.count(" unknown</span>") == 3, "the disks' legend"
    assert "What groups hold back is unknown" in text
    assert "Sizes of topics are unknown" in text
    assert not re.search(r"\b0 B\b|\b0\.0 ", text)


def test_what_was_not_measured_is_named_beside_what_was(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "could not be measured" not in said(open_page())
    real = headline.headline
    monkeypatch.setattr(context, "headline", lambda *a: replace(real(*a), unmeasured=2))
    text = said(open_page())
    assert "2 partitions more could not be measured and are not in it." in text
    assert "30.2 GiB</abbr></strong> are consumed" in text


def test_each_disk_says_when_it_is_full(open_page: Open) -> None:
    text = said(open_page())

    assert ">full in 40 h<" in text
    assert ">not filling up<" in text
    assert "What fills them, and what would change when they are full" in text


def test_the_header_names_cluster_age_and_brokers(open_page: Open) -> None:
    text = said(open_page())

    assert "<h1>prod-eu</h1>" in text
    assert re.search(r">(3[89]|[45][0-9]) s ago<|>[1-9] min ago<", text)
    assert "3 of 3 brokers" in text
    assert "lw-head warn" not in text


def test_the_button_leads_to_a_purge_of_the_topics_without_guards(open_page: Open) -> None:
    app = open_page()
    app.button(key="plan-safest").click().run()

    assert "orders" in app.multiselect(key="plan-topics").value
    assert "clickstream" not in app.multiselect(key="plan-topics").value
    assert "audit-log" not in app.multiselect(key="plan-topics").value


def test_the_lists_name_blockers_and_the_slowest_followers(open_page: Open) -> None:
    text = said(open_page())

    assert "**billing-replay** holds back 6.8 GiB" in text
    assert "silent for 41 d" in text
    assert "broker 3 is slow: 12 of 41 replicas, 21 s behind, falling 3 s a minute" in text


def test_orphans_stand_in_the_sentence_and_newest_first_in_their_list(open_page: Open) -> None:
    text = said(open_page())

    assert "921.6 MiB</abbr></strong> in orphans" in text
    first = text.index("broker 3, **refunds-old-0.77c1-stray**: 307.2 MiB, stray, scheduled")
    assert first < text.index("**clicks-v1-0.0a4f-stray**: 614.4 MiB, stray, removable")


@pytest.mark.further_but(
    "None-No snapshot yet",
    "nothing-Nothing can be given back",
    "stale-stale: no snapshot for over three intervals",
)
@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        (None, "No snapshot yet"),
        ("no-analysis", "The first analysis is not finished"),
        ("nothing", "Nothing can be given back"),
        ("broker-missing", "Broker 3 did not answer"),
        ("stale", "stale: no snapshot for over three intervals"),
        ("incomplete", "The list of consumer groups is incomplete"),
    ],
)
def test_each_state_is_designed(open_page: Open, variant: str | None, expected: str) -> None:
    assert expected in said(open_page(variant=variant))


def test_while_a_broker_is_away_guards_and_their_bytes_are_named_and_its_disk_stays(
    open_page: Open,
) -> None:
    text = said(open_page(variant="broker-away"))

    assert "Nothing can be given back while guards hold it" in text
    assert re.search(r"GiB below the targets are held by guards: under-replicated \(", text)
    assert "What broker 3 has is unknown: it did not answer." in text
    assert "read up to nothing" not in text
    assert text.count('<div class="lw-disk">') == 3
    assert "no answer within 10 s" in text[text.index("Disks, fullest first") :]
    legend = text[text.index("Disks, fullest first") : text.index("What fills them")]
    assert "unknown while guarded" in legend
    assert "held back 0 B" not in legend
    assert "reclaimable 0 B" not in legend


def test_the_button_promises_what_the_plan_shows_first(open_page: Open) -> None:
    app = open_page()
    facts = context.facts_of(app.session_state["lw-kept"])
    size = formats.size(known_total(facts, "bytes_at_once", "free"))
    assert app.button(key="plan-safest").label == f"Plan the safest: {size} at once"


def test_a_missing_broker_is_amber_and_named_in_the_header(open_page: Open) -> None:
    text = said(open_page(variant="broker-missing"))

    assert "lw-head warn" in text
    assert "2 of 3 brokers" in text
    assert "broker 3 did not answer" in text


def test_an_unknown_setting_becomes_a_message(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWWATER_EVRY", "60s")

    text = said(open_page())

    assert "SETTINGS_KEY_UNKNOWN" in text
    assert "LOWWATER_EVERY" in text


@pytest.mark.further
def test_what_was_pruned_under_a_page_is_told_and_the_next_look_is_the_newest(
    open_page: Open, tmp_path: Path
) -> None:
    app = open_page("reclaimable")
    cluster = sample_store.write(tmp_path / "data", "nothing")
    gone = cluster.ids("findings")[0]
    prune(cluster, "findings", lambda ids: ids[1:], utc_now())
    app.session_state["lw-kept"].findings._held.clear()  # as if it had not been read yet
    text = said(app.run())
    assert "That is no longer kept (SNAPSHOT_NOT_FOUND)" in text
    assert gone in text
    assert ">0 B</abbr></strong> consumed by every known group" in said(app.run())


def test_a_page_where_one_chooses_keeps_its_numbers_until_newer_ones_are_asked_for(
    open_page: Open, tmp_path: Path
) -> None:
    app = open_page("reclaimable")
    assert app.button(key="lw-newer").disabled, "its place is kept: it does not move the page"
    before = app.dataframe[0].value["Reclaimable"]
    sample_store.write(tmp_path / "data", "nothing")
    app.run()
    assert app.dataframe[0].value["Reclaimable"].equals(before)

    app.button(key="lw-newer").click().run()
    assert app.button(key="lw-newer").disabled
    assert not app.dataframe[0].value["Reclaimable"].dropna().any()


@pytest.mark.further
@pytest.mark.parametrize("page", ["overview", "growth", "orphans", "followers", "quality", "audit"])
def test_a_page_that_is_only_read_shows_each_new_analysis_by_itself_unless_live_is_off(
    open_page: Open, page: str, tmp_path: Path
) -> None:
    app = open_page(page)
    first = app.session_state["lw-kept"].findings.id
    sample_store.write(tmp_path / "data", "calm")
    said(app.run())
    second = app.session_state["lw-kept"].findings.id
    assert second > first

    app.toggle(key="live").set_value(False).run()
    sample_store.write(tmp_path / "data", "nothing")
    said(app.run())
    assert app.session_state["lw-kept"].findings.id == second


@pytest.mark.further
def test_nothing_is_redrawn_under_who_looks_for_room(open_page: Open, tmp_path: Path) -> None:
    app = open_page()
    first = app.session_state["lw-kept"].findings.id
    app.session_state["lw-room"] = True
    app.run()
    app.selectbox(key="triage-disk").select_index(2).run()
    chosen = app.selectbox(key="triage-disk").value
    sample_store.write(tmp_path / "data", "calm")
    said(app.run())
    assert app.session_state["lw-kept"].findings.id == first
    assert app.selectbox(key="triage-disk").value == chosen

    app.session_state["lw-room"] = False
    said(app.run())
    said(app.run())
    assert app.session_state["lw-kept"].findings.id > first


@pytest.mark.further_but("overview")
@pytest.mark.parametrize("page", sorted(routes.TITLES))
def test_records_that_came_back_stand_in_the_header_of_every_page(
    open_page: Open, page: str, tmp_path: Path, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    (row,) = journal.partitions(run_id)
    now = utc_now()
    back = replace(row, state="reverted", leader_log_start_offset=0, sent_at=now)
    journal.record(run_id, "read", [back], now)
    journal.set_run(run_id, "done", now)
    text = said(open_page(page))

    assert f'<a href="purge?run={run_id}" target="_self">records came back in orders</a>' in text
    assert "lw-head warn" in text


@pytest.mark.further_but("overview", "purge")
@pytest.mark.parametrize("page", sorted(routes.TITLES))
def test_an_outage_and_the_switch_stand_on_every_page(
    open_page: Open, page: str, tmp_path: Path, journal: Journal
) -> None:
    store = sample_store.write(tmp_path / "data")
    journal.set_read_only(True, "ada", utc_now())
    with (
        pytest.raises(ClusterError),
        attempts.attempt(store, utc_now, lambda _: None, timedelta(minutes=1)),
    ):
        raise ClusterError("h:1 could not be reached: <refused>", "Start a broker.")

    text = said(open_page(page, variant=None))

    assert "0 of 3 brokers" in text
    assert "⚠ no broker answered" in text
    assert "The cluster cannot be read (CLUSTER_UNREACHABLE)" in text
    assert "h:1 could not be reached: &lt;refused&gt;" in text
    assert "Start a broker." in text
    assert "⏸ every purge is stopped</b>: an approver switched every purge off" in text


@pytest.mark.further_but("overview-1", "purge-2")
@pytest.mark.parametrize("away", [1, 2])
@pytest.mark.parametrize("page", sorted(routes.TITLES))
def test_brokers_that_went_since_the_snapshot_are_away_on_every_page(
    open_page: Open, page: str, away: int, tmp_path: Path
) -> None:
    store = sample_store.write(tmp_path / "data")
    with attempts.attempt(store, utc_now, lambda _: None) as trying:
        trying.met([Broker(at, "h", 9, reachable=at > away, error="silent") for at in (1, 2, 3)])

    text = said(open_page(page, variant=None))

    assert f"{3 - away} of 3 brokers" in text and "3 of 3 brokers" not in text
    named = "broker 1 did not answer" if away == 1 else "brokers 1, 2 did not answer"
    assert f"⚠ {named}" in text


def test_where_the_very_first_attempt_fails_the_page_says_why(
    open_page: Open, tmp_path: Path
) -> None:
    with (
        pytest.raises(ClusterError),
        attempts.connecting(
            Store(str(tmp_path / "data")), lambda _: True, utc_now, lambda _: None, again=True
        ),
    ):
        raise ClusterError("h:1 could not be reached: <refused>", "Start a broker.")

    text = said(open_page(variant=None))

    assert "No snapshot yet" in text
    assert "The first attempt to collect failed (CLUSTER_UNREACHABLE)" in text
    assert "h:1 could not be reached: &lt;refused&gt;" in text and "Start a broker." in text


def test_a_missing_broker_of_the_newest_attempt_is_named_beside_older_numbers(
    open_page: Open, tmp_path: Path
) -> None:
    store = sample_store.write(tmp_path / "data")
    with attempts.attempt(store, utc_now, lambda _: None) as trying:
        trying.met([Broker(1, "a", 1), Broker(2, "b", 1, reachable=False, error="<silent>")])

    text = said(open_page(variant=None))

    assert "1 of 2 brokers" in text
    assert "⚠ broker 2 did not answer" in text
    assert "broker 2: &lt;silent&gt;" in text
    assert "every purge is stopped" not in text
