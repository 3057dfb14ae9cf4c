"""Reclaimable: the table, filters that totals follow, the what-if, and declaring readers."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import Journal
from dashboard.store.snapshots import Store
from dashboard.ui.growth import advice
from dashboard.ui.session import context
from dashboard.views import formats
from dashboard.views.facts import known_total
from tests.pages.conftest import Open, copied, read, said


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


@pytest.mark.further
def test_how_do_you_know_speaks_of_the_topics_that_pass_the_filters(open_page: Open) -> None:
    app = open_page("reclaimable")
    app.text_input(key="topic").set_value("payments").run()
    facts = context.facts_of(app.session_state["lw-kept"])
    rows = facts.filter(pc.and_(pc.equal(facts["topic"], "payments"), facts["consumed"]))
    low, high = (known_total(rows, name) for name in ("bytes_low", "bytes_high"))
    text = said(app)
    assert f"{formats.size(low)} to {formats.size(high)}, all replicas together" in text
    assert f"<b>Partitions</b>: {rows.num_rows} of {rows.num_rows}<" in text


def test_what_a_tick_adds_is_what_stands_beside_the_group(open_page: Open) -> None:
    app = open_page("reclaimable")
    box = app.checkbox(key="waive billing-replay")
    promised = box.label.split(" · ")[1].split(" :small")[0]
    text = said(box.set_value(True).run())
    added = text[text.index("<b>+") : text.index("of it at once.")]
    assert f">{read(promised)}</abbr>" in added


def test_what_guards_hold_is_named_beside_the_totals(open_page: Open) -> None:
    app = open_page("reclaimable", "broker-away")
    text = said(app.text_input(key="topic").set_value("orders").run())
    rows = context.facts_of(app.session_state["lw-kept"])
    of = rows.filter(pc.match_substring(rows["topic"], "orders"))
    size = formats.size(known_total(of, "bytes_likely", "guarded"))
    assert f"{size} below the targets are held by guards: under-replicated ({size}" in text


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
    app.multiselect(key="declare-topics").set_value(["clickstream"]).run()
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


@pytest.mark.further
def test_what_stands_is_the_forms_default_and_a_shorter_window_is_said_before_the_click(
    open_page: Open, tmp_path: Path
) -> None:
    """A topic that was declared again lost its window and its owner to an empty form."""
    app = open_page("reclaimable")
    store = Store(str(tmp_path / "data")).cluster()
    kept = {
        "glob": "clickstream", "owner": "team-web", "readers": "groups", "replay_window": "7d",
        "declared_by": "bob", "declared_at": "2026-01-01", "reason": "r", "state_restore": "none",
    }  # fmt: skip
    store.write_declarations([kept])
    app.multiselect(key="declare-topics").set_value(["clickstream"]).run()
    (window,) = (box for box in app.selectbox if box.key.startswith("declare-window"))
    (owner,) = (box for box in app.text_input if box.key.startswith("declare-owner"))
    ticked = {box.label: box.value for box in app.checkbox if box.key.startswith("declare-")}
    assert (window.value, owner.value) == ("7d", "team-web")
    assert ticked == {
        "Its groups are all its readers": True,
        "No table of Kafka Streams is built from it": True,
    }
    assert "replay window 7 d, no Streams table: bob, 2026-01-01" in said(app)
    assert "may be purged" not in said(app)
    window.select("0s").run()
    assert "clickstream: replay window from 7 d to none" in said(app)

    (reason,) = (box for box in app.text_input if box.key.startswith("declare-reason"))
    reason.set_value("asked again")
    app.form_submit_button[0].click().run()
    (row,) = store.declarations()
    assert (row["replay_window"], row["declared_by"]) == ("0s", "ada")
    assert (row["state_restore"], row["owner"]) == ("none", "team-web")
    assert "Declared 1 topic" in said(app)


def test_of_topics_that_differ_the_form_shows_what_keeps_the_most(
    open_page: Open, tmp_path: Path
) -> None:
    app = open_page("reclaimable")
    Store(str(tmp_path / "data")).cluster().write_declarations(
        [{"glob": "clickstream", "owner": "team-web", "readers": "groups", "replay_window": "2h"}]
    )
    app.multiselect(key="declare-topics").set_value(["clickstream", "payments"]).run()
    (window,) = (box for box in app.selectbox if box.key.startswith("declare-window"))
    (readers,) = (box for box in app.checkbox if box.key.startswith("declare-readers"))
    assert (window.options, readers.value) == (["none", "1 h", "2 h", "1 d", "3 d", "7 d"], False)
    assert window.value == "7200000ms"


def test_what_the_settings_declare_cannot_be_declared_here(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page said that it counts; a glob of the settings kept its replay window from that."""
    file = tmp_path / "lowwater.toml"
    file.write_text(
        '[topics."click*"]\nowner = "a"\nreaders = "groups"\ndeclared_by = "a"\n'
        'declared_at = 2026-01-01\nreason = "x"\n'
    )
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    app = open_page("reclaimable")
    app.multiselect(key="declare-topics").set_value(["clickstream"]).run()
    assert f'clickstream: declared by [topics."click*"] of {file}' in said(app)
    assert "Edit it there" in said(app)
    assert not app.form_submit_button
    app.multiselect(key="declare-topics").set_value(["payments"]).run()
    assert app.form_submit_button


def test_a_click_meant_for_other_topics_than_those_shown_declares_nothing(
    open_page: Open, tmp_path: Path
) -> None:
    app = open_page("reclaimable")
    app.multiselect(key="declare-topics").set_value(["clickstream"]).run()
    for field in ("owner", "reason"):
        app.text_input(key=f"declare-{field}").set_value("told")
    app.multiselect(key="declare-topics").set_value(["clickstream", "payments"])
    app.form_submit_button[0].click().run()
    assert Store(str(tmp_path / "data")).cluster().declarations() == []
    assert "Not saved: the topics changed" in said(app)


@pytest.mark.further_but("reason")
@pytest.mark.parametrize("missing", ["owner", "reason", "name"])
def test_a_declaration_without_an_owner_a_reason_or_a_name_is_not_saved(
    open_page: Open, tmp_path: Path, missing: str
) -> None:
    app = open_page("reclaimable")
    app.multiselect(key="declare-topics").set_value(["clickstream"]).run()
    for field in ("owner", "reason", "name"):
        app.text_input(key=f"declare-{field}").set_value("" if field == missing else "told")
    app.form_submit_button[0].click().run()

    assert Store(str(tmp_path / "data")).cluster().declarations() == []
    assert "Not saved" in said(app)


@pytest.mark.further
def test_old_findings_offer_no_topic_to_delete(open_page: Open) -> None:
    app = open_page("reclaimable", "stale")
    text = said(app)
    assert re.search(r"By the snapshot of 1[78](\.\d)? min ago: 4 topics idle", text)
    assert not copied(app)
    assert "Not proposed: the newest findings are of" in text


@pytest.mark.further
def test_the_line_goes_from_an_open_page_once_its_snapshot_is_too_old(
    open_page: Open, redrawn: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_page("reclaimable")
    assert copied(app) and advice.AGAIN.total_seconds() in redrawn
    monkeypatch.setattr(advice, "utc_now", lambda: utc_now() + timedelta(minutes=5))
    assert "Not proposed: the newest findings are of" in said(app.run()) and not copied(app)


@pytest.mark.further
def test_a_link_to_a_group_does_not_bring_the_last_visits_filter_back(open_page: Open) -> None:
    app = open_page("reclaimable", topic="payments")
    assert topics(app) == ["payments"]
    app.switch_page("../pages/overview.py").run()
    app.switch_page("../pages/reclaimable.py")
    app.query_params.pop("topic", None)  # as a browser's navigation does
    app.query_params["group"] = "old-reporting"
    app.run()

    assert topics(app) == ["reports-old"]


@pytest.mark.further
def test_idle_topics_stand_below_with_the_line_that_deletes_the_chosen_one(
    open_page: Open,
) -> None:
    app = open_page("reclaimable")
    text = said(app)
    assert "4 topics idle for 7 days or more" in text and "Lowwater deletes no topic" in text
    shown = app.dataframe[-1].value
    assert list(shown["Topic"])[-1] == "tx-ledger" and list(shown["Verdict"])[-1] == "? not known"
    assert copied(app)[0].endswith("--delete --topic tiny-events")
    app.number_input(key="idle-days").set_value(10).run()
    assert "Not proposed: group old-reporting has not read" in said(app) and not copied(app)
    app.number_input(key="idle-days").set_value(60).run()
    assert "0 topics idle for 60 days or more; of 2 topics it is not known." in said(app)
    assert not copied(app)


def test_topics_that_somebody_reads_unseen_are_links_to_their_pages(open_page: Open) -> None:
    app = open_page("reclaimable")
    assert "Readers that no group shows" in said(app)
    (link,) = (link for link in app.page_link if "groups explain" in link.label)
    assert read(link.label).startswith("**metrics-raw** sent out 11.1 MiB an hour, of which")
    assert "name=metrics-raw" in link.proto.query_string


@pytest.mark.parametrize("variant", ["calm", "older"])
def test_where_nobody_is_suspected_no_reader_is_spoken_of(open_page: Open, variant: str) -> None:
    assert "Readers that no group shows" not in said(open_page("reclaimable", variant))
