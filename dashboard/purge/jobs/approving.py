"""The second person: a purge is asked for, and somebody else approves or rejects it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from datetime import datetime
from typing import NoReturn

from dashboard.core.clock import format_time, utc_now
from dashboard.core.errors import ApprovalRequired, RefusedError
from dashboard.core.visible import in_quotes
from dashboard.people import people
from dashboard.people.people import Actor, Who
from dashboard.purge.jobs import queue_refusals as refuse
from dashboard.purge.jobs.worker_process import spawn
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.requests import Approval, Asked, PurgeRequest, refuse_closed
from dashboard.purge.journal.rows import Options
from dashboard.purge.plan.plan import Plan
from dashboard.settings.people import PeopleSettings
from dashboard.settings.settings import Settings


def ask(
    settings: Settings,
    journal: Journal,
    plan: Plan,
    who: Who,
    *,
    name: str,
    token: str,
    mode: str,
    from_where: str,
    typed: str,
    options: Options,
    connection: Mapping[str, str | None],
    now: datetime,
) -> NoReturn:
    """Keep the request of `name` and say so: raises ApprovalRequired; nothing is queued.

    It stands as long as `approval_expires_after`, or as its plan, if that expires sooner.
    """
    section = people.current(settings) or PeopleSettings()
    claims = who.claims if isinstance(who, Actor) else {}
    request = journal.ask(
        plan,
        Asked(
            token,
            mode,
            name,
            who.how if isinstance(who, Actor) else "local",
            people.role_values(section, claims),
            from_where,
            typed,
            options,
            connection,
            min(now + section.approval_expires_after, plan.expires_at),
        ),
        now,
    )
    refuse_closed(request, now)
    raise ApprovalRequired(
        request.request_id,
        f"the purge was asked for by {request.asked.requester} as request {request.request_id}; "
        "somebody else must approve it",
        f"Until {format_time(request.asked.expires_at)}, on the page Purge or with: lowwater "
        f"approvals --approve {request.request_id} --confirm {in_quotes(plan.confirmation)}.",
    )


def approve(
    settings: Settings,
    journal: Journal,
    request_id: str,
    *,
    who: Who,
    confirm: str,
    sha256: str | None = None,
    from_where: str | None = None,
    now: datetime | None = None,
    start: bool = True,
) -> str:
    """Queue what was asked for, as it was asked for, and start its worker: the run's id.

    `sha256` is that of the plan as the approver saw it. Raises UsageError REQUEST_NOT_FOUND;
    RefusedError ROLE_TOO_LOW, SAME_PERSON, REQUEST_CLOSED, REQUEST_EXPIRED, and what `enqueue`
    refuses; JournalError. Nothing is sent.
    """
    moment = now or utc_now()
    name = people.require(settings, who, "approver", f"approve request {request_id}", moment)
    request = journal.request(request_id)
    refuse_closed(request, moment)
    _refuse_same(request, name)
    _refuse_requester(settings, request)
    refuse.read_only(settings, journal)
    plan = journal.requested_plan(request_id)
    refuse.other_text(plan, confirm, request.plan_sha256)
    refuse.other_text(plan, confirm, sha256)
    refuse.changed_since(settings, journal, plan, request_id, moment)
    asked = request.asked
    run_id, is_new = journal.insert(
        plan,
        token=request_id,
        mode=asked.mode,
        who=asked.requester,
        from_where=asked.from_where,
        typed=asked.typed,
        options=asked.options,
        connection=asked.connection,
        now=moment,
        approval=Approval(
            request_id,
            name,
            who.how if isinstance(who, Actor) else "local",
            confirm,
            from_where or socket.gethostname(),
        ),
    )
    if is_new and start:
        spawn(settings, run_id)
    return run_id


def reject(
    settings: Settings,
    journal: Journal,
    request_id: str,
    *,
    who: Who,
    from_where: str | None = None,
    now: datetime | None = None,
) -> None:
    """Close a request without a run: an approver's, or the requester's own.

    Raises UsageError REQUEST_NOT_FOUND; RefusedError ROLE_TOO_LOW, REQUEST_CLOSED,
    REQUEST_EXPIRED; JournalError.
    """
    moment = now or utc_now()
    what = f"reject request {request_id}"
    name = people.require(settings, who, "operator", what, moment)
    if not people.same_person(name, journal.request(request_id).asked.requester):
        people.require(settings, who, "approver", what, moment)
    journal.reject(request_id, name, from_where or socket.gethostname(), moment)


def _refuse_same(request: PurgeRequest, name: str) -> None:
    if people.same_person(name, request.asked.requester):
        raise RefusedError(
            f"{name} asked for request {request.request_id} and cannot approve it too",
            "Ask another approver.",
            code="SAME_PERSON",
        )


def _refuse_requester(settings: Settings, request: PurgeRequest) -> None:
    """ROLE_TOO_LOW: who asked was an operator then, and is none any more.

    Values of a claim count as they were signed when it was asked for: only the provider knows more.
    """
    section = people.current(settings)
    if section is None:
        return
    asked = request.asked
    role = people.role_of(section, asked.requester, asked.role_values)
    if not Actor(asked.requester, role, "local").may("operator"):
        raise RefusedError(
            f"{asked.requester}, who asked for request {request.request_id}, is no operator any "
            "more",
            "Reject it; an operator can plan and ask again.",
            code="ROLE_TOO_LOW",
        )
