"""Audit: the chain's verdict, the timeline with its filters, and the switch for all purges."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.clock import utc_now
from dashboard.purge.journal.archive import archive
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import PolicyClaim
from dashboard.views import formats
from tests.pages.conftest import Open, copied, said
from tests.pages.purges import SENTENCE, Requests, queued
from tests.support import archives, sample_store
from tests.support.sample_store import CLUSTER_ID
from tests.unit.purge.test_journal_archive import OPTIONS
from tests.unit.purge.test_plan import free_plan


def switches(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    journal.set_read_only(True, "ada", utc_now())
    journal.set_read_only(False, "grace", utc_now())
    return journal


def test_an_empty_journal_says_how_a_purge_starts(open_page: Open) -> None:
    assert "No purge yet" in said(open_page("audit"))


def test_entries_are_listed_newest_first_and_the_chain_verifies(
    open_page: Open, tmp_path: Path
) -> None:
    switches(tmp_path).close()
    app = open_page("audit")

    assert "chain verified to entry <b>2</b>" in said(app)
    assert list(app.dataframe[0].value["Who"]) == ["grace", "ada"]
    assert list(app.dataframe[0].value["Said"]) == [
        "purges allowed again",
        "every purge switched off",
    ]


def test_the_timeline_follows_its_filters(open_page: Open, tmp_path: Path) -> None:
    switches(tmp_path).close()
    app = open_page("audit")
    app.selectbox(key="who").select("ada").run()

    assert list(app.dataframe[0].value["Entry"]) == [1]


def test_a_changed_entry_is_found(open_page: Open, tmp_path: Path) -> None:
    switches(tmp_path).close()
    with sqlite3.connect(tmp_path / "state" / "journal.sqlite") as db:
        db.execute("UPDATE entries SET body = replace(body, 'ada', 'eve') WHERE seq = 1")
    db.close()

    assert "The chain is broken" in said(open_page("audit"))


@pytest.mark.further
def test_a_copy_of_the_journal_is_shown_as_one(
    open_page: Open, journal: Journal, tmp_path: Path
) -> None:
    journal.set_read_only(True, "ann", utc_now())
    journal.close()
    copy = tmp_path / "state" / "copy.sqlite"
    shutil.copy(tmp_path / "state" / "journal.sqlite", copy)
    copy.replace(tmp_path / "state" / "journal.sqlite")
    app = open_page("audit")

    assert "chain verified" in said(app)
    assert "is a copy" in said(app)


def test_the_switch_stops_every_purge(open_page: Open, tmp_path: Path) -> None:
    app = open_page("audit")
    app.button(key="stop-every-purge").click().run()
    journal = Journal(tmp_path / "state" / "journal.sqlite")

    assert journal.read_only()
    assert "Every purge is switched off, by ada at 20" in said(app)
    assert app.button(key="stop-every-purge").disabled
    journal.close()


def test_who_stops_every_purge_twice_allows_none(open_page: Open, journal: Journal) -> None:
    """A second click of a double click, or of an approver whose page was drawn before."""
    app = open_page("audit")
    stop = app.button(key="stop-every-purge")
    stop.click().run()
    stop.click().run()
    assert journal.read_only()

    journal.set_read_only(False, "ada", utc_now())
    app.run()
    stop = app.button(key="stop-every-purge")
    journal.set_read_only(True, "ann", utc_now())
    app.run()
    stop.click().run()
    assert journal.read_only()


@pytest.mark.further
def test_purges_are_allowed_again_by_a_tick_that_belongs_to_one_stop(
    open_page: Open, journal: Journal
) -> None:
    app = open_page("audit")
    app.button(key="stop-every-purge").click().run()
    assert app.button(key="allow-purges-again").disabled

    app.checkbox[0].check().run()
    journal.set_read_only(False, "ann", utc_now())
    journal.set_read_only(True, "ann", utc_now())
    app.button(key="allow-purges-again").click().run()
    assert journal.read_only()
    assert not app.checkbox[0].value

    app.checkbox[0].check().run()
    app.button(key="allow-purges-again").click().run()
    assert not journal.read_only()
    assert "allow-purges-again" not in {button.key for button in app.button}


def test_a_run_shows_who_from_where_by_which_plan_and_what_was_typed(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    run = journal.run(run_id).run
    table = open_page("audit").dataframe[0].value

    assert list(table["Run"]) == [f"purge?run={run_id}"]
    assert list(table["Who"]) == ["ada"]
    assert list(table["From"]) == [run.from_where]
    assert run.from_where.startswith("dashboard on ")
    assert list(table["Mode"]) == ["wait-all"]
    assert list(table["Typed"]) == [SENTENCE]
    assert list(table["Plan"]) == [run.plan_id]
    assert list(table["Topics"]) == ["orders"]


@pytest.mark.further
def test_runs_and_entries_follow_the_state_and_the_topic(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    first = queued(open_page, journal)
    journal.set_run(first, "done", utc_now())
    second = queued(open_page, journal)
    app = open_page("audit")
    assert len(app.dataframe[0].value) == 2

    app.selectbox(key="state").select("done").run()
    assert list(app.dataframe[0].value["Run"]) == [f"purge?run={first}"]
    assert second not in " ".join(app.dataframe[1].value["Run"])

    app.selectbox(key="topic").select("orders").run()
    assert list(app.dataframe[0].value["Run"]) == [f"purge?run={first}"]


def test_the_journal_can_be_exported(open_page: Open, tmp_path: Path) -> None:
    switches(tmp_path).close()
    labels = [button.proto.label for button in open_page("audit").get("download_button")]

    assert labels == ["Export CSV", "Export JSON"]


@pytest.mark.parametrize("store", ["without snapshots", "that cannot be read"])
def test_without_a_snapshot_the_journal_is_shown_and_its_switch_works(
    open_page: Open, tmp_path: Path, store: str
) -> None:
    """When the store is gone, purges must be stopped no less than before."""
    if store == "that cannot be read":
        (tmp_path / "data").write_text("no folder")
    switches(tmp_path).close()
    app = open_page("audit", None)

    assert ("NO_SNAPSHOT" if store == "without snapshots" else "STORE_") in said(app)
    assert "chain verified to entry <b>2</b>" in said(app)
    assert list(app.dataframe[0].value["Who"]) == ["grace", "ada"]
    app.button(key="stop-every-purge").click().run()
    assert "Every purge is switched off" in said(app)


@pytest.mark.further
def test_of_a_long_journal_it_says_which_runs_are_shown(
    open_page: Open, requests: Requests, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued(open_page, journal)
    assert "The newest" not in said(open_page("audit"))
    monkeypatch.setattr(Journal, "run_count", lambda _: 2_001)
    told = f"The newest {formats.number(2_000)} of {formats.number(2_001)} runs"
    assert told in said(open_page("audit"))


def test_what_was_archived_is_told_and_verifies(
    open_page: Open, journal: Journal, tmp_path: Path
) -> None:
    now = utc_now()
    for days in (9, 8, 1):
        journal.set_read_only(days == 9, "ada", now - timedelta(days=days))
    archive(
        journal, tmp_path / "kept", before=now - timedelta(days=5), who="ada",
        from_where="here", now=now,
    )  # fmt: skip
    app = open_page("audit")
    assert "chain verified to entry <b>4</b> <small>entries before 3 are archived" in said(app)
    assert app.dataframe[0].value["Said"].iloc[0] == (
        f"entries to 2 with 0 runs moved to {tmp_path / 'kept'}"
    )


def elsewhere(journal: Journal, cluster: str = "c9") -> str:
    """A run of a cluster of an earlier demo."""
    plan = replace(free_plan(now=utc_now()), cluster_id=cluster, cluster_name="demo")
    run_id, _ = journal.insert(
        plan, token=cluster, mode="wait-all", who="bob", from_where="host", typed="t",
        options=OPTIONS, connection={}, now=utc_now(),
    )  # fmt: skip
    return run_id


@pytest.mark.further
def test_runs_and_entries_of_other_clusters_are_there_when_asked_for(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    mine, other = queued(open_page, journal), elsewhere(journal)
    journal.set_read_only(True, "ada", utc_now())  # of no cluster: it concerns them all
    app = open_page("audit")
    assert list(app.dataframe[0].value["Run"]) == [f"purge?run={mine}"]
    assert other not in " ".join(filter(None, app.dataframe[1].value["Run"]))
    assert "switch" in set(app.dataframe[1].value["What"])
    assert app.toggle(key="every").label == "Show 1 other cluster too"

    app.toggle(key="every").set_value(True).run()
    assert list(app.dataframe[0].value["Cluster"]) == ["demo", "prod-eu"]
    assert other in " ".join(filter(None, app.dataframe[1].value["Run"]))
    assert open_page("audit", every="true").toggle(key="every").value is True


@pytest.mark.further
def test_a_journal_of_one_cluster_has_nothing_to_take_in(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    queued(open_page, journal)
    app = open_page("audit")
    assert not [toggle for toggle in app.toggle if toggle.key == "every"]
    assert "Cluster" not in app.dataframe[0].value


def test_a_run_of_another_cluster_says_of_which_it_is(open_page: Open, journal: Journal) -> None:
    run_id = elsewhere(journal)
    assert "This run is of another cluster: <b>demo</b>" in said(open_page("purge", run=run_id))


@pytest.mark.further
def test_a_runs_link_leads_to_its_own_cluster(
    open_page: Open, journal: Journal, tmp_path: Path
) -> None:
    sample_store.write(tmp_path / "data")
    sample_store.write(tmp_path / "data", cluster_id="c9", name="demo")
    run_id = elsewhere(journal)
    app = open_page("audit", cluster="prod-eu", every="true")
    assert list(app.dataframe[0].value["Run"]) == [f"purge?cluster=demo&run={run_id}"]
    app = open_page("purge", cluster="prod-eu", run=run_id)
    assert f'<a href="purge?cluster=demo&amp;run={run_id}" target="_self">demo</a>' in said(app)


@pytest.mark.further
def test_a_policys_runs_are_one_row_until_each_is_asked_for(
    open_page: Open, journal: Journal
) -> None:
    claim = ready(journal)
    for at in range(3):
        plan = replace(free_plan(now=utc_now()), cluster_id=CLUSTER_ID, created_by=str(at))
        run_id, _ = journal.insert(
            plan, token=str(at), mode="wait-all", who="policy tidy", from_where="host", typed="",
            options=OPTIONS, connection={}, now=utc_now() + timedelta(hours=at), policy=claim,
        )  # fmt: skip
        journal.set_run(run_id, "done", utc_now())
    app = open_page("audit")
    assert list(app.dataframe[0].value["State"]) == ["✔ done, 3 times"]
    app.toggle(key="each").set_value(True).run()
    assert list(app.dataframe[0].value["State"]) == ["✔ done"] * 3


def ready(journal: Journal) -> PolicyClaim:
    """A lease and a switch, so that the policy's runs are let in."""
    now = utc_now() - timedelta(minutes=1)
    journal.take_lease(
        CLUSTER_ID, "ours", host="h", pid=7, ttl=timedelta(days=9), most_silence=timedelta(days=9),
        now=now,
    )  # fmt: skip
    journal.switch_policy(
        CLUSTER_ID, "tidy", "sha", enabled=True, who="ann", typed="t", from_where="host", now=now
    )
    return PolicyClaim("tidy", "sha", timedelta(seconds=30), "ours")


def test_archives_are_listed_with_the_line_that_restores_them(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {0: archives.records(1200, first=7)}
    made = {"cluster_id": CLUSTER_ID, "per_part": 700}
    one = archives.write(tmp_path / "kept", {"orders": rows}, **made)
    archives.write(tmp_path / "kept", {"orders": rows, "b": rows}, run_id="another", **made)
    archives.write(tmp_path / "kept", {"c": rows}, run_id="elsewhere", cluster_id="other")
    settings = tmp_path / "lowwater.toml"
    settings.write_text(f'[archive]\nurl = "{tmp_path}/kept"\nper_gib_month = 1048576\n')
    monkeypatch.setenv("LOWWATER_SETTINGS", str(settings))
    app = open_page("audit")
    assert "No purge yet" in said(app) and not copied(app), "a new machine finds them too"
    switches(tmp_path).close()
    app.run()
    app.toggle(key="archives").set_value(True).run()
    assert not app.exception
    table = app.dataframe[-1].value
    assert list(table["Run"]) == ["another", archives.RUN_ID]
    assert list(table["Offsets"]) == ["2 partitions", "7 to 1\u202f207"]
    assert list(table["Records"]) == ["2\u202f400", "1\u202f200"]
    assert all(cost.endswith(" EUR a month") for cost in table["Costs"])
    assert copied(app)[0].splitlines() == [
        f"lowwater restore {one.parent}/another --topic {t} --to-topic {t}-restored"
        for t in ("orders", "b")
    ]
    app.selectbox(key="archived-run").select(archives.RUN_ID).run()
    assert copied(app)[0] == f"lowwater restore {one} --to-topic orders-restored"
