"""After a purge: who is behind, until when it is watched, and records that came back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.domain.metric_names import PURGATORY_SIZE, REQUEST_TIME
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Follower
from tests.pages.conftest import Open, said
from tests.pages.purges import CLUSTER_NAME, Requests, queued


def close(journal: Journal, run_id: str, **change: object) -> None:
    """The run's partition as `change` has it, and the run partly done."""
    (row,) = journal.partitions(run_id)
    now = utc_now()
    values = {"sent_at": now, "low_watermark": 0, "leader_log_start_offset": 600, **change}
    journal.record(run_id, "read", [replace(row, **values)], now)  # type: ignore[arg-type]
    journal.set_run(run_id, "partial", now, watched_until=now + timedelta(hours=1))


@pytest.mark.further
def test_a_wait_all_run_that_timed_out_names_who_is_behind_and_until_when_it_watches(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    behind = Follower(2, 0, True, False, None, 1200, 300.0)
    close(journal, run_id, state="leader_done", error="REQUEST_TIMED_OUT", followers=(behind,))
    app = open_page("purge", run=run_id)
    text = said(app)

    assert (
        "Broker 2 is behind on 1 partition: 1\u202f200 records behind, closing at 300 records/s, "
        "about 4 s to go."
    ) in text
    assert "Watched for" in text
    assert "one that is elected leader before that brings the records back" in text
    assert app.dataframe[0].value["Followers behind"][0].startswith("broker 2: 1\u202f200 records")


@pytest.mark.further
def test_a_run_whose_followers_followed_says_so_by_its_states_and_in_the_table(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    close(journal, run_id, state="done", followers=(Follower(2, 600, True, True),))
    app = open_page("purge", run=run_id)

    assert "Followers have followed: every replica of 1 partition starts at the target" in said(app)
    assert "<b>1 partition</b>" in said(app)
    assert app.dataframe[0].value["Followers behind"].tolist() == ["none"]


@pytest.mark.further
def test_a_run_says_why_partitions_wait_or_are_left_in_words(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    (row,) = journal.partitions(run_id)
    why = "coordinator broker 3 does not <answer>"
    waits = replace(row, error="groups-incomplete", message=why)
    journal.note(run_id, [waits])
    told = f"groups-incomplete</b>, {why.replace('<answer>', '&lt;answer&gt;')}"
    assert f"○ pending, 1 partition: <b>{told}" in said(open_page("purge", run=run_id))

    journal.record(run_id, "gave-up", [replace(waits, state="not_done")], utc_now())
    journal.set_run(run_id, "cancelled", utc_now())
    assert f"✖ not done, 1 partition: <b>{told}" in said(open_page("purge", run=run_id))

    refused = {"code": "REFUSED", "message": f"nothing was sent: orders-0 {why}", "next": "Read."}
    journal.set_run(run_id, "refused", utc_now(), error=refused)
    text = said(open_page("purge", run=run_id))
    assert text.count("does not &lt;answer&gt;") == 1, "the run's own error says it"


@pytest.mark.further
def test_an_open_run_shows_what_its_leaders_count_of_waiting_requests(
    open_page: Open,
    requests: Requests,
    journal: Journal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    purge = '{request="DeleteRecords"'
    (tmp_path / "told").write_text(
        f'{PURGATORY_SIZE}{{delayedOperation="DeleteRecords"}} 3\n'
        f"{REQUEST_TIME}_count{purge}}} 9\n{REQUEST_TIME}_mean{purge}}} 8.0\n"
    )
    (tmp_path / "lowwater.toml").write_text(
        f'[clusters.{CLUSTER_NAME}]\n"bootstrap.servers" = "127.0.0.1:9"\n'
        f'"metrics.urls" = "1={tmp_path}/told,2={tmp_path}/told,3={tmp_path}/absent"\n'
    )
    monkeypatch.setenv("LOWWATER_SETTINGS", str(tmp_path / "lowwater.toml"))
    run_id = queued(open_page, journal)
    (row,) = journal.partitions(run_id)
    sent = replace(row, state="sent", sent_at=utc_now(), sent_leader_id=1)
    journal.record(run_id, "intent", [sent], utc_now())
    journal.set_run(run_id, "running", utc_now())
    st.cache_data.clear()
    told = (
        "Broker 1: 3 DeleteRecords requests wait for followers; they took 8 ms on average "
        "since its start."
    )
    text = said(open_page("purge", run=run_id))
    assert told in text
    assert "Broker 2:" not in text, "it leads nothing of the run"
    journal.set_run(run_id, "done", utc_now())
    assert told not in said(open_page("purge", run=run_id))


def test_records_that_came_back_are_an_alert_on_the_run_and_in_the_lists(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    close(journal, run_id, state="reverted", error="RECORDS_CAME_BACK", leader_id=3)

    run = said(open_page("purge", run=run_id))
    assert "↺ Records came back" in run
    assert "orders, 1 partition: broker 3 was elected leader" in run
    for page in ("overview", "purge"):
        text = said(open_page(page))
        assert "↺ Records came back</b> in 1 partition of orders" in text
        assert f"See run {run_id}" in text
        assert f"lowwater run {run_id} --dismiss" in text  # where no purge can go as far again


@pytest.mark.further
def test_plan_again_opens_the_purge_of_those_topics(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    close(journal, run_id, state="reverted", error="RECORDS_CAME_BACK", leader_id=3)
    app = open_page("purge", run=run_id)
    requests.clear()
    app.button(key="plan-again").click().run()

    assert app.multiselect(key="plan-topics").value == ["orders"]
    assert [request.topics for request in requests] == [("orders",)]
    assert "run" not in app.query_params


def test_plan_again_on_the_page_itself_chooses_those_topics_whatever_was_chosen_before(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    close(journal, run_id, state="reverted", error="RECORDS_CAME_BACK", leader_id=3)
    app = open_page("purge", waive="slow")
    app.multiselect(key="plan-topics").set_value(["payments"]).run()
    for _ in range(2):  # the second time the address asks for the same
        app.button(key=f"again-{run_id}").click().run()
        assert app.multiselect(key="plan-topics").value == ["orders"]
        assert app.multiselect(key="plan-waive").value == []
        assert requests[-1].topics == ("orders",)
        app.multiselect(key="plan-topics").set_value(["payments"])
        app.multiselect(key="plan-waive").set_value(["slow"]).run()
        assert app.multiselect(key="plan-topics").value == ["payments"]


@pytest.mark.further
def test_the_alert_ends_when_a_later_run_has_purged_them(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    first = queued(open_page, journal)
    close(journal, first, state="reverted", leader_id=3)
    second = queued(open_page, journal)
    close(journal, second, state="done")

    assert second != first
    assert "Records came back" not in said(open_page("overview"))


def test_a_waiver_moves_offsets_only_when_ticked(open_page: Open, requests: Requests) -> None:
    app = open_page("purge", topics="orders", waive="slow")
    app.text_input(key="plan-reason").set_value("retired").run()
    app.button(key="preview").click().run()
    assert not requests[-1].move_waived
    assert "tick “Move the waived groups' offsets” in step 1" in said(app)

    app.checkbox(key="plan-move").check().run()
    app.button(key="preview").click().run()
    assert requests[-1].move_waived
    assert "its offset is moved, and it resumes at the target" in said(app)


def test_a_plan_and_its_targets_can_be_taken_along(open_page: Open, requests: Requests) -> None:
    app = open_page("purge", topics="orders")
    labels = [button.proto.label for button in app.get("download_button")]

    assert labels == [
        "↓ Targets (JSON of Kafka's delete-records tool)",
        "↓ Plan file (for lowwater apply)",
    ]
