"""Orphans: what lies on each disk, what may go, the evidence, and what is handed out."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.core.clock import utc_now
from dashboard.orphans import verdicts
from dashboard.ui import orphan_rows
from tests.pages.conftest import Open, copied, said
from tests.support import sample_findings, sample_rich, sample_store


def folders(app: AppTest) -> list[str]:
    return list(app.dataframe[0].value["Folder"])


def test_what_lies_there_what_may_go_and_what_each_log_dir_is_made_of(open_page: Open) -> None:
    app = open_page("orphans", "rich")
    text = said(app)

    assert "2.0 GiB</abbr></strong> in 10 orphans." in text
    assert "1.6 GiB</abbr></b> <abbr" in text
    assert "may go now</abbr>, in 5 folders." in text
    assert "342.0 MiB</abbr> in 2 wait; the first is looked at again" in text
    assert "3 stay." in text
    assert "1 folder seen once only: no orphan yet." in text
    assert (
        "broker 3 /d1: live 17.5 GiB, future 180.0 MiB, indexes 40.0 MiB, delete 90.0 MiB" in text
    )
    assert "deleted topic 308.0 MiB" in text
    assert '<span class="lw-orphan">✚ stray <abbr' in text
    assert text.index("broker 3 /d1:") < text.index("broker 2 /d1:") < text.index("broker 1 /d1:")

    # Broker 1's disk was never listed.
    listing, reading = copied(app)[0].splitlines()
    assert "7.0 GiB unexplained on broker 1: no inventory" in text
    assert listing == "lowwater inventory command --log-dirs /d1 | ssh 127.0.0.1 sh > 1.listing"
    assert reading == "lowwater inventory read 1.listing --broker 1 --out 1.inventory"
    assert copied(app)[1].startswith("(LC_ALL=C; export LC_ALL; printf")


def test_a_card_has_all_evidence_and_a_line_only_where_a_sweep_would_act(open_page: Open) -> None:
    app = open_page("orphans", "rich", folder="orders-5")
    text = said(app)

    assert folders(app) == ["orders-5"]
    assert "recreated-topic: of a topic that was deleted, and created again under its name" in text
    assert (
        "<code>xQ7dxQ7dxQ7dxQ7dxQ7d03</code><br>today: <code>0000000000000000000003</code>" in text
    )
    assert "211.0 MiB</abbr>, <abbr" in text
    assert "60 d ago</abbr>" in text
    assert "by 540 snapshots" in text
    assert "<b>✔ removable</b>: every snapshot of 9 h that could look there shows it" in text
    assert copied(app)[-1] == (
        "lowwater orphans sweep --log-dirs /d1 --bootstrap-server 127.0.0.1:9 "
        "--verdicts verdicts.json"
    )

    for folder, expected in (
        ("refunds-old-0", "Looked at again <abbr"),
        ("legacy-0", "<b>⊘ never</b>: no topic id"),
        ("customer-state-1", "No sweep touches this kind"),
        ("tx-old-0", "a line in a checkpoint file, without a folder"),
    ):
        app.text_input(key="folder").set_value(folder).run()
        assert expected in said(app)
        assert not any("orphans sweep" in lines for lines in copied(app))


def test_filters_keep_kind_verdict_and_broker(open_page: Open) -> None:
    app = open_page("orphans", "rich", kind="deleted-topic")
    assert folders(app) == ["refunds-old-0", "legacy-0"]

    app.selectbox(key="broker").select("2").run()
    assert folders(app) == ["legacy-0"]

    app.selectbox(key="verdict").select("removable").run()
    assert "No orphan passes the filters" in said(app)


def test_selected_rows_show_their_cards(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphan_rows, "show_table", lambda rows: [rows[6]])
    app = open_page("orphans", "rich")
    (card,) = (str(b.value) for b in app.html if "<dl>" in str(b.value))

    assert "refunds-old-0" in card


def downloads(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What each download button would hand out, by its key."""
    found: dict[str, Any] = {}

    def button(label: str, data: Any, *, key: str, **_: Any) -> bool:
        found[key] = data
        return False

    monkeypatch.setattr(st, "download_button", button)
    return found


def test_the_verdicts_are_those_of_the_command_line_and_csv_has_them_all(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed = downloads(monkeypatch)
    open_page("orphans", "plain")
    text = handed["verdicts"]()
    found = verdicts.parse(text, "verdicts.json", now=utc_now())
    table = list(csv.DictReader(io.StringIO(handed["orphans-csv"]())))

    assert [row.topic for row in found.rows if row.verdict == "removable"] == ["clicks-v1"]
    assert json.loads(text)["cluster_name"] == "prod-eu"
    assert [row["verdict"] for row in table] == ["removable", "scheduled"]


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("no-analysis", "The first analysis is not finished"),
        ("older", "These findings are older than this page"),
        ("broker-missing", "Broker 3 did not answer"),
    ],
)
def test_each_state_is_designed(open_page: Open, variant: str | None, expected: str) -> None:
    assert expected in said(open_page("orphans", variant))


def test_no_orphan_says_where_was_looked(open_page: Open) -> None:
    text = said(open_page("orphans", "calm"))

    assert "No orphan is known" in text
    assert "DescribeLogDirs of 3 of 3 brokers; inventories of brokers 3." in text
    assert "unexplained on brokers 1, 2: no inventory" in text


def test_a_broker_counts_as_looked_at_where_all_its_log_dirs_were(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = sample_findings._VARIANTS["calm"]

    def calm(tables: dict[str, Any], taken_at: Any) -> None:
        plain(tables, taken_at)
        more = [row | {"log_dir": "/d2"} for row in tables["disks"]]
        tables["disks"] += [row | {"inventory_at": None} for row in more]

    monkeypatch.setitem(sample_findings._VARIANTS, "calm", calm)
    sample_store.write(tmp_path / "data", "calm", now=utc_now())
    text = said(open_page("orphans"))
    assert "3 of 3 brokers; no inventory of any disk. Without one" in text


def test_odd_names_are_text(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = "</code><b onclick=x>'`$(id)"
    plain = sample_rich.orphans

    def orphans(taken_at: Any) -> Any:
        return [row | {"log_dir": f"/{odd}", "reason": odd} for row in plain(taken_at)]

    monkeypatch.setattr(sample_rich, "orphans", orphans)
    html = said(open_page("orphans", "rich"))

    assert "<b onclick" not in html
    assert "&lt;b onclick=x&gt;" in html


@pytest.mark.further
def test_of_ten_thousand_orphans_a_thousand_are_sent_to_the_browser(
    open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = sample_rich.orphans

    def many(taken_at: Any) -> Any:
        row = plain(taken_at)[0]
        return [row | {"directory": f"big-{n}", "partition": n} for n in range(10_000)]

    monkeypatch.setattr(sample_rich, "orphans", many)
    app = open_page("orphans", "rich")

    assert "in 10\u202f000 orphans" in said(app)
    assert sum("<dl>" in str(block.value) for block in app.html) == 4
    assert len(folders(app)) == orphan_rows.TABLE_SHOWN
    assert "9\u202f000 more: filter to see them, the CSV has all." in said(app)


def test_the_overview_leads_here(open_page: Open) -> None:
    app = open_page("overview", "rich")
    links = {link.label: link.proto.page for link in app.page_link}

    assert links["See the 2.0 GiB in orphans"] == "orphans"
    assert any("10 orphans" in label for label in links)
