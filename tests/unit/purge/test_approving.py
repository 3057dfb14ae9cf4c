"""The second person: what is asked for, who approves it, until when, what the chain tells."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import ApprovalRequired, LowwaterError, RefusedError
from dashboard.people.people import Actor
from dashboard.purge.jobs import approving, queue
from dashboard.purge.journal.journal import Journal, open_default
from dashboard.purge.plan.plan import Plan
from dashboard.purge.receipt.model import Receipt
from dashboard.settings.people import PeopleSettings
from dashboard.settings.settings import PurgeSettings, Settings
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.test_plan import free_plan
from tests.unit.purge.test_queue import overriding_plan

PEOPLE = PeopleSettings(operators=("bob",), approvers=("ann", "carl"), second_person=True)
BOB, ANN, CARL, EVE = (Actor(name, None, "local") for name in ("bob", "ann", "carl", "eve"))
SENTENCE = "purge orders on prod"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path, people=PEOPLE)


@pytest.fixture
def journal(settings: Settings) -> Iterator[Journal]:
    made = open_default(settings)
    yield made
    made.close()


def asked(settings: Settings, journal: Journal, plan: Plan | None = None, **change: Any) -> str:
    """The id of the request that enqueueing leaves."""
    wanted = plan or free_plan()
    given: dict[str, Any] = {
        "mode": "wait-all", "confirm": wanted.confirmation, "sha256": wanted.sha256, "who": BOB,
        "token": "click", "now": NOW, "start": False, **change,
    }  # fmt: skip
    with pytest.raises(ApprovalRequired) as told:
        queue.enqueue(settings, journal, wanted, **given)
    assert (told.value.code, told.value.exit_code) == ("APPROVAL_REQUIRED", 3)
    assert told.value.to_json()["error"]["request_id"] == told.value.request_id
    return told.value.request_id


def approved(settings: Settings, journal: Journal, request_id: str, **change: Any) -> str:
    given: dict[str, Any] = {"who": ANN, "confirm": SENTENCE, "now": NOW, "start": False, **change}
    return approving.approve(settings, journal, request_id, **given)


def refused(settings: Settings, journal: Journal, request_id: str, **change: Any) -> str:
    """The code of what is refused; nothing is queued."""
    with pytest.raises(LowwaterError) as told:
        approved(settings, journal, request_id, **change)
    assert journal.runs() == []
    return told.value.code


def test_a_purge_is_asked_for_and_queued_as_the_requesters(
    settings: Settings, journal: Journal
) -> None:
    request_id = asked(settings, journal, mode="leader-only", canary=True)
    assert journal.runs() == []

    run = journal.run(approved(settings, journal, request_id, from_where="ann's desk")).run
    assert (run.who, run.approved_by, run.mode, run.typed) == (
        "bob",
        "ann",
        "leader-only",
        SENTENCE,
    )
    assert run.options.canary
    kinds = [(entry.kind, entry.body["who"]) for entry in journal.entries()]
    assert kinds == [("asked", "bob"), ("approved", "ann"), ("queued", "bob")]
    approval, queued = journal.entries(run.run_id)
    assert approval.body["from_where"] == "ann's desk"
    assert (queued.body["approved_by"], queued.body["request_id"]) == ("ann", request_id)
    assert journal.request(request_id).run_id == run.run_id
    assert journal.verify().ok


def test_the_receipt_names_the_second_person(settings: Settings, journal: Journal) -> None:
    run_id = approved(settings, journal, asked(settings, journal))
    journal.write_receipt(run_id, Receipt(final=True), NOW)
    assert journal.run(run_id).run.receipt == Receipt(final=True, approved_by="ann")
    assert journal.run(run_id).to_json()["receipt"]["approved_by"] == "ann"
    assert journal.run(run_id).to_json()["approved_by"] == "ann"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"who": BOB}, "ROLE_TOO_LOW"),
        ({"who": EVE}, "ROLE_TOO_LOW"),
        ({"who": "ann"}, "ROLE_TOO_LOW"),
        ({"confirm": "purge 2 topics on prod"}, "CONFIRMATION_MISMATCH"),
        ({"confirm": ""}, "CONFIRMATION_MISMATCH"),
        ({"sha256": "0" * 64}, "PLAN_EDITED"),
        ({"now": NOW + timedelta(minutes=30)}, "REQUEST_EXPIRED"),
    ],
)
def test_what_is_no_approval(
    settings: Settings, journal: Journal, change: dict[str, Any], code: str
) -> None:
    request_id = asked(settings, journal)
    assert refused(settings, journal, request_id, **change) == code
    assert journal.request(request_id).state == "asked"


@pytest.mark.parametrize("name", ["ann", "ANN", "\uff21nn "])
def test_nobody_approves_their_own_request(settings: Settings, journal: Journal, name: str) -> None:
    mine = replace(PEOPLE, operators=(name,), approvers=("ann",))
    request_id = asked(replace(settings, people=mine), journal, who=Actor(name, None, "local"))
    assert refused(replace(settings, people=mine), journal, request_id) == "SAME_PERSON"


def test_an_approval_never_outlives_its_plan(settings: Settings, journal: Journal) -> None:
    long = replace(settings, people=replace(PEOPLE, approval_expires_after=timedelta(days=1)))
    plan = free_plan()
    request_id = asked(long, journal)
    assert journal.request(request_id).asked.expires_at == plan.expires_at
    assert refused(long, journal, request_id, now=plan.expires_at) == "REQUEST_EXPIRED"


def test_an_expired_request_is_asked_for_anew(settings: Settings, journal: Journal) -> None:
    first = asked(settings, journal)
    later = NOW + timedelta(minutes=31)
    second = asked(settings, journal, token="later", now=later)
    assert second != first
    assert journal.run(approved(settings, journal, second, now=later)).run.approved_by == "ann"


def test_ten_clicks_and_a_second_asker_are_one_request(
    settings: Settings, journal: Journal
) -> None:
    first = asked(settings, journal)
    assert asked(settings, journal) == first
    assert asked(settings, journal, token="other", who=CARL) == first
    assert [entry.kind for entry in journal.entries()] == ["asked"]


@pytest.mark.parametrize(
    "otherwise",
    [{"canary": True}, {"timeout": timedelta(seconds=5)},
     {"connection": {"bootstrap_servers": "other:9092"}}],
)  # fmt: skip
def test_a_request_that_is_to_be_carried_out_otherwise_is_another_one(
    settings: Settings, journal: Journal, otherwise: dict[str, Any]
) -> None:
    first = asked(settings, journal)
    with pytest.raises(RefusedError) as refused:
        asked(settings, journal, token="other", **otherwise)
    assert refused.value.code == "REQUEST_OPEN"
    assert f"lowwater approvals --reject {first}" in refused.value.next_step
    approving.reject(settings, journal, first, who=CARL, now=NOW)
    assert asked(settings, journal, token="other", **otherwise) != first


def test_of_two_approvers_and_a_rejection_one_counts(settings: Settings, journal: Journal) -> None:
    request_id = asked(settings, journal)

    def act(who: Actor | None) -> str:
        try:
            if who is None:
                approving.reject(settings, journal, request_id, who=CARL, now=NOW)
                return "rejected"
            return approved(settings, journal, request_id, who=who)
        except RefusedError as error:
            return error.code

    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(act, [ANN, None, CARL, ANN, None, CARL]))
    state = journal.request(request_id).state
    assert len(journal.runs()) == (state == "approved")
    assert said.count("rejected") == (state == "rejected")
    assert journal.verify().ok


def test_a_request_is_decided_once(settings: Settings, journal: Journal) -> None:
    request_id = asked(settings, journal)
    with pytest.raises(RefusedError) as told:
        approving.reject(settings, journal, request_id, who=EVE, now=NOW)
    assert told.value.code == "ROLE_TOO_LOW"
    approving.reject(settings, journal, request_id, who=BOB, now=NOW)  # one's own
    assert refused(settings, journal, request_id) == "REQUEST_CLOSED"
    assert [entry.kind for entry in journal.entries()] == ["asked", "rejected"]
    with pytest.raises(RefusedError) as again:
        queue.enqueue(
            settings, journal, free_plan(), mode="wait-all", confirm=SENTENCE, sha256=None,
            who=BOB, token="click", now=NOW, start=False,
        )  # fmt: skip
    assert again.value.code == "REQUEST_CLOSED"


def test_another_operator_does_not_reject_what_is_not_theirs(
    settings: Settings, journal: Journal
) -> None:
    more = replace(settings, people=replace(PEOPLE, operators=("bob", "eve")))
    with pytest.raises(RefusedError) as told:
        approving.reject(more, journal, asked(more, journal), who=EVE, now=NOW)
    assert told.value.code == "ROLE_TOO_LOW"


def test_who_asked_and_lost_the_role_since_purges_nothing(
    settings: Settings, journal: Journal
) -> None:
    request_id = asked(settings, journal)
    without = replace(settings, people=replace(PEOPLE, operators=()))
    assert refused(without, journal, request_id) == "ROLE_TOO_LOW"


def test_a_role_by_claim_counts_as_it_was_signed(settings: Settings, journal: Journal) -> None:
    by_claim = replace(
        settings,
        people=replace(PEOPLE, name_claim="sub", role_claim="groups", operator_values=("ops",)),
    )
    claims = {"is_logged_in": True, "sub": "u1", "groups": ["ops", "x"], "iat": NOW.timestamp()}
    request_id = asked(by_claim, journal, who=Actor("u1", None, "oidc", claims))
    request = journal.request(request_id)
    assert (request.asked.how, request.asked.role_values) == ("oidc", ("ops",))
    assert approved(by_claim, journal, request_id)


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (Settings(people=PEOPLE, read_only=True), "READ_ONLY"),
        (
            Settings(people=PEOPLE, purge=PurgeSettings(liftable_guards=("over-limit",))),
            "NOT_LIFTABLE",
        ),
    ],
)
def test_what_settings_refuse_since_then_is_not_approved(
    settings: Settings, journal: Journal, now: Settings, code: str
) -> None:
    request_id = asked(settings, journal, overriding_plan())
    assert refused(now, journal, request_id) == code


def test_a_busy_topic_leaves_the_request_open(settings: Settings, journal: Journal) -> None:
    alone = replace(settings, people=None)
    request_id = asked(settings, journal)
    run_id = queue.enqueue(
        alone, journal, overriding_plan(), mode="wait-all", confirm=SENTENCE, sha256=None,
        who="zoe", token="else", now=NOW, start=False,
    )  # fmt: skip
    with pytest.raises(RefusedError) as told:
        approved(settings, journal, request_id)
    assert told.value.code == "TOPIC_BUSY"
    assert journal.request(request_id).state == "asked"
    journal.set_run(run_id, "done", NOW)
    assert approved(settings, journal, request_id)


def test_a_request_that_cannot_be_read_is_a_broken_journal(
    settings: Settings, journal: Journal
) -> None:
    request_id = asked(settings, journal)
    with sqlite3.connect(journal.file.path) as db:
        db.execute("UPDATE purge_requests SET options = '{'")
    assert refused(settings, journal, request_id) == "JOURNAL_BROKEN"


@pytest.mark.parametrize(
    "change",
    [
        "requester = 'mallory'",
        "state = 'approved', decided_by = 'ann'",
        "plan_sha256 = 'x'",
        "mode = 'leader-only'",
    ],
)
def test_a_request_that_was_changed_in_the_file_is_told(
    settings: Settings, journal: Journal, change: str
) -> None:
    request_id = asked(settings, journal)
    with sqlite3.connect(journal.file.path) as db:
        db.execute(f"UPDATE purge_requests SET {change}")
    assert journal.verify().problems == (f"request {request_id} is not as the chain tells",)
