"""Purge: target, preview, confirmation; one click queues one run; then the run is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError, RefusedError
from dashboard.domain.model import Guard
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan import drafts
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.guards import Waive
from dashboard.purge.plan.plan import Estimate, Plan, PlannedPartition
from dashboard.purge.plan.targets import parse_target
from dashboard.purge.receipt.model import Receipt
from dashboard.ui.purge import plan_view
from tests.pages.conftest import Open, said
from tests.pages.purges import SENTENCE, Requests, a_plan, confirmation, queued


def test_topics_in_the_address_are_previewed_at_once(open_page: Open, requests: Requests) -> None:
    app = open_page("purge", topics="orders,payments")
    text = said(app)

    assert [request.topics for request in requests] == [("orders", "payments")]
    assert requests[0].by == "ada"
    assert "3.0 MiB</abbr></b><small>at once" in text
    assert SENTENCE in text
    assert list(app.dataframe[0].value["→ target"]) == ["600", "unknown"]
    assert "no-committed-offset" in app.dataframe[0].value["Guards"][1]


def test_the_preview_says_who_declared_readers_and_that_unseen_ones_were_not_measured(
    open_page: Open, requests: Requests
) -> None:
    text = said(open_page("purge", topics="orders"))
    assert "Readers of orders declared by ann at 2026-01-01, without a reason." in text
    assert "Unseen readers of orders: not measured (no broker metrics are kept)." in text


def test_no_plan_is_made_before_it_is_asked_for(open_page: Open, requests: Requests) -> None:
    app = open_page("purge")
    app.multiselect(key="plan-topics").set_value(["orders"]).run()
    assert requests == []

    app.button(key="preview").click().run()
    assert [request.topics for request in requests] == [("orders",)]


def test_a_change_of_the_target_drops_the_preview(open_page: Open, requests: Requests) -> None:
    app = open_page("purge", topics="orders")
    assert SENTENCE in said(app)
    app.multiselect(key="plan-topics").set_value(["orders", "payments"]).run()

    assert SENTENCE not in said(app)
    assert len(requests) == 1


def test_system_topics_are_not_offered(open_page: Open, requests: Requests) -> None:
    assert "__consumer_offsets" not in open_page("purge").multiselect(key="plan-topics").options


def test_the_button_is_off_until_the_sentence_matches(open_page: Open, requests: Requests) -> None:
    app = open_page("purge", topics="orders")
    assert app.button(key="queue-run").disabled

    confirmation(app)("purge 1 topic on prod")
    assert app.button(key="queue-run").disabled

    confirmation(app)(SENTENCE)
    assert not app.button(key="queue-run").disabled


def test_a_confirmed_plan_is_queued_once_with_its_sha256(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    app.button(key="queue-run").click().run()

    (run,) = journal.runs()
    assert (run.state, run.mode, run.who, run.typed) == ("queued", "wait-all", "ada", SENTENCE)
    assert run.plan_sha256 == journal.plan(run.run_id).sha256
    assert app.query_params["run"] == run.run_id
    assert f"queued · run {run.run_id}" in said(app)
    assert [e.kind for e in journal.entries()] == ["queued"]


def test_the_same_click_twice_gives_one_run(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    draft = app.session_state["lw-draft"]
    app.button(key="queue-run").click().run()
    app.session_state["lw-draft"] = draft
    del app.query_params["run"]
    app.query_params["topics"] = "orders"
    app.run()
    confirmation(app)(SENTENCE)
    app.button(key="queue-run").click().run()

    assert len(journal.runs()) == 1


@pytest.mark.further
def test_another_purge_on_the_topic_is_told_in_words(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    first = open_page("purge", topics="orders")
    confirmation(first)(SENTENCE)
    first.button(key="queue-run").click().run()
    second = open_page("purge", topics="orders")
    confirmation(second)(SENTENCE)
    second.button(key="queue-run").click().run()

    assert "Another purge is running on this topic (TOPIC_BUSY)" in said(second)
    assert len(journal.runs()) == 1


def test_read_only_switches_the_button_off(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    journal.set_read_only(True, "ada", utc_now())
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)

    assert app.button(key="queue-run").disabled
    reason = "an approver switched every purge off, in the journal"
    assert f"Purges are off (read-only): {reason}." in said(app)


def test_a_waiver_needs_a_reason(open_page: Open, requests: Requests) -> None:
    app = open_page("purge", topics="orders", waive="billing-replay")
    assert requests == []

    app.text_input(key="plan-reason").set_value("retired").run()
    app.button(key="preview").click().run()
    assert requests[-1].waive == (Waive("billing-replay", "retired"),)


def test_an_unreachable_cluster_is_a_message(
    open_page: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> Plan:
        raise ClusterError("no broker of h:1 answered", "Check the bootstrap address.")

    monkeypatch.setattr(drafts, "draft", refuse)

    text = said(open_page("purge", topics="orders"))

    assert "The cluster does not answer (CLUSTER_UNREACHABLE)" in text
    assert "Check the bootstrap address." in text


def test_an_unknown_run_in_the_address_is_a_message(open_page: Open) -> None:
    assert "There is no such run (RUN_NOT_FOUND)" in said(open_page("purge", run="nope"))


def test_the_run_shows_states_receipt_and_controls(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    app.button(key="queue-run").click().run()
    run_id = journal.runs()[0].run_id
    assert app.button(key="run-resume").disabled
    app.button(key="run-pause").click().run()
    assert journal.wish(run_id) == "pause"
    assert app.button(key="run-pause").disabled and not app.button(key="run-resume").disabled

    (row,) = journal.partitions(run_id)
    now = utc_now()
    done = replace(row, state="done", low_watermark=600, leader_log_start_offset=600)
    journal.record(run_id, "read", [done], now)
    journal.write_receipt(
        run_id,
        Receipt(
            predicted_bytes=3 * 2**20,
            freed_bytes=2 * 2**20,
            final=True,
            gap="the active segment stays whole",
        ),
        now,
    )
    journal.set_run(run_id, "done", now)
    text = said(open_page("purge", run=run_id))

    assert "✔ done" in text
    assert "3.0 MiB</abbr></b><small>predicted" in text
    assert "2.0 MiB</abbr></b><small>freed" in text
    assert "The active segment stays whole." in text


@pytest.mark.further
def test_a_run_of_which_nothing_was_done_has_failed_and_says_what_next(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    (row,) = journal.partitions(run_id)
    now = utc_now()
    refused = replace(row, state="not_done", error="UNSUPPORTED_VERSION", message="it <speaks> v2")
    journal.record(run_id, "read", [replace(refused, sent_at=now)], now)
    nothing = Receipt(predicted_bytes=0, freed_bytes=0, final=True, gap=None)
    journal.write_receipt(run_id, nothing, now)
    journal.set_run(run_id, "partial", now)
    app = open_page("purge", run=run_id)
    text = said(app)

    assert "✖ failed" in text and "partly done" not in text
    assert "Nothing was purged" in text and "Receipt" not in text
    assert "<b>UNSUPPORTED_VERSION</b>, 1 partition: it &lt;speaks&gt; v2" in text
    assert "choose “Leader only, verified”" in text
    assert journal.run(run_id).to_json()["state"] == "partial", "the contract's word"
    listed = said(open_page("overview"))
    assert "✖ failed" in listed and "nothing was purged" in listed and "freed 0 B" not in listed
    app.button(key="plan-again").click().run()
    assert app.query_params["topics"] == "orders"


@pytest.mark.further
def test_a_run_whose_leaders_do_not_speak_its_mode_says_which_one_they_do(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    (row,) = journal.partitions(run_id)
    refused = replace(row, state="not_done", error="UNSUPPORTED_VERSION", answer_error_code=35)
    journal.record(run_id, "answer", [refused], utc_now())
    journal.set_run(run_id, "refused", utc_now())
    text = said(open_page("purge", run=run_id))
    assert "⊘ refused" in text and "Nothing was purged" in text
    assert "choose “Leader only, verified”" in text


def test_without_a_record_below_the_targets_there_is_no_red_button(
    open_page: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_left(_settings: object, _root: str, _cluster: str, request: PlanRequest) -> Plan:
        plan = a_plan(request)
        free = [replace(p, log_start_offset=p.target_offset) for p in plan.partitions]
        return replace(plan, partitions=tuple(free))

    monkeypatch.setattr(drafts, "draft", nothing_left)
    app = open_page("purge", topics="orders")
    assert "No record lies below the targets" in said(app)
    assert not [button for button in app.button if button.key == "queue-run"]


def test_a_plan_of_several_topics_is_rolled_up_above_its_partitions() -> None:
    free = a_plan(PlanRequest(("orders",), parse_target("committed"), by="ada")).partitions[0]

    def row(topic: str, size: int | None, *guards: str) -> PlannedPartition:
        return replace(
            free, topic=topic, log_start_offset=0, target_offset=10,
            guards=tuple(Guard(name, "why", "what") for name in guards),
            estimate=None if size is None else Estimate(size, "proportional"),
        )  # fmt: skip

    found, unit = plan_view.topics_frame(
        [row("a", 2**20), row("a", 2**20), row("b", 5 * 2**20), row("b", 9 * 2**20, "held"),
         row("c", None), row("d", 3 * 2**20, "held")]
    )  # fmt: skip
    assert unit == "MiB"
    assert list(found["Topic"]) == ["b", "a", "c", "d"]
    assert list(found["Free"]) == ["1 of 2", "2 of 2", "1 of 1", "0 of 1"]
    assert list(found["Records"]) == ["10", "20", "10", "0"]
    assert list(found["At once (MiB)"].fillna(-1)) == [5, 2, -1, 0]
    assert list(found["Guards"]) == ["held", "", "", "held"]


@pytest.mark.further
def test_from_a_run_another_purge_can_be_planned(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    app.button(key="queue-run").click().run()
    app.button(key="plan-another").click().run()

    assert "run" not in app.query_params
    assert "which records may go" in said(app)


def test_targets_of_a_plan_that_expired_are_not_handed_to_a_tool_that_checks_nothing(
    open_page: Open, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: dict[str, tuple[Callable[[], str], bool]] = {}

    def button(_label: str, data: Callable[[], str], **options: Any) -> bool:
        handed[options["key"]] = (data, options.get("disabled", False))
        return False

    monkeypatch.setattr(st, "download_button", button)
    app = open_page("purge", topics="orders")
    data, off = handed["plan-offsets"]
    assert json.loads(data())["partitions"][0]["offset"] == 600 and not off

    # The page stays open for an hour: what it drew then hands out nothing any more.
    monkeypatch.setattr(plan_view, "utc_now", lambda: utc_now() + timedelta(hours=1))
    with pytest.raises(RefusedError, match="expired") as refused:
        data()
    assert refused.value.code == "PLAN_EXPIRED"
    text = said(app.run())
    assert "Its targets are not handed out: plan " in text
    assert handed["plan-offsets"][1]
