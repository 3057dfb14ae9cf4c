"""The queue: a confirmed plan becomes a run, and a detached worker process carries it out."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dashboard.core.clock import utc_now
from dashboard.core.errors import JournalError, UsageError
from dashboard.domain.model import MODES
from dashboard.people import people
from dashboard.people.people import Who
from dashboard.purge.execute import stop_rules
from dashboard.purge.jobs import approving
from dashboard.purge.jobs import queue_refusals as refuse
from dashboard.purge.jobs.worker_process import ReadyWorker, spawn
from dashboard.purge.journal import gate
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import PolicyClaim
from dashboard.purge.journal.rows import Options, RunRow, RunView
from dashboard.purge.plan.plan import Plan
from dashboard.settings.policies.policy import Policy
from dashboard.settings.purge import check_request_timeout
from dashboard.settings.settings import Settings, pinned

STALE_AFTER = timedelta(seconds=15)
_GLANCE_SECONDS = 0.005  # how soon another process's write is seen: asking reads nothing
_LOOK_SECONDS = 0.25  # how often workers that died are looked for


def enqueue(
    settings: Settings,
    journal: Journal,
    plan: Plan,
    *,
    mode: str,
    confirm: str,
    sha256: str | None,
    who: Who,
    token: str,
    from_where: str | None = None,
    timeout: timedelta | None = None,
    canary: bool = False,
    connection: Mapping[str, str | None] | None = None,
    now: datetime | None = None,
    start: bool = True,
    worker: ReadyWorker | None = None,
) -> str:
    """Queue the plan's free partitions and start a worker: the run's id.

    `sha256` is that of the plan as it was previewed; `token` identifies this one click, a
    second call with it gives the same run. `connection` may name paths (`client_config`) or
    `bootstrap_servers` that replace the stored ones; never secrets. `worker` is one that was
    started before the run was known. Raises UsageError MODE_UNKNOWN; RefusedError ROLE_TOO_LOW,
    READ_ONLY, PLAN_EDITED, CONFIRMATION_MISMATCH, PLAN_EXPIRED, NOT_LIFTABLE, GUARDED,
    NOTHING_FREE, PLAN_ALREADY_APPLIED, TOPIC_BUSY, and where a second person must agree
    ApprovalRequired, which names the request; JournalError. Nothing is sent.
    """
    moment = now or utc_now()
    if mode not in MODES:
        raise UsageError(
            f"'{mode}' is not a mode", f"Choose one of: {', '.join(MODES)}.", code="MODE_UNKNOWN"
        )
    name = people.require(settings, who, "operator", "purge", moment)
    refuse.read_only(settings, journal)
    refuse.other_text(plan, confirm, sha256)
    refuse.changed_since(settings, journal, plan, token, moment)
    given: dict[str, Any] = {
        "token": token,
        "mode": mode,
        "from_where": from_where or socket.gethostname(),
        "typed": confirm,
        "options": _options(settings, timeout, canary, plan.archive),
        "connection": {**_stored_connection(settings, plan), **(connection or {})},
    }
    if people.second_person(settings):
        approving.ask(settings, journal, plan, who, name=name, now=moment, **given)
    run_id, is_new = journal.insert(plan, who=name, now=moment, **given)
    if is_new and worker is not None:
        worker.take(run_id)
    elif is_new and start:
        spawn(settings, run_id)
    return run_id


def enqueue_policy(
    settings: Settings,
    journal: Journal,
    plan: Plan,
    *,
    policy: Policy,
    claim: PolicyClaim,
    connection: Mapping[str, str | None] | None = None,
    now: datetime,
) -> str:
    """Queue the plan's free partitions for a policy: the run's id. No worker is started.

    Nobody confirms this run: the policy was switched on by its own sentence. Raises RefusedError
    READ_ONLY, NOTHING_FREE, PLAN_EXPIRED, NOT_LIFTABLE and what `Journal.insert` refuses;
    JournalError.
    """
    refuse.read_only(settings, journal)
    refuse.nothing_free(plan)
    if plan.expired(now):
        gate.late(plan)
    refuse.not_allowed(settings, plan)
    refuse.beyond_policy(plan, policy)
    run_id, _ = journal.insert(
        plan,
        token=secrets.token_hex(16),
        mode=policy.mode,
        who=f"policy {policy.name}",
        from_where=socket.gethostname(),
        typed="",
        options=_options(settings, None, False, plan.archive),
        connection={**_stored_connection(settings, plan), **(connection or {})},
        now=now,
        policy=claim,
    )
    return run_id


def respawn_stale(
    settings: Settings,
    journal: Journal,
    *,
    awaited: str | None = None,
    now: datetime | None = None,
) -> list[str]:
    """Start a worker for each run that has work left and no sign of life; their ids.

    Of many callers at once one starts it, and again only after another STALE_AFTER of silence.
    A policy's closed run is followed by the service, which takes them all up when it is started
    again: it gets a worker of its own only if the caller waits for it (`awaited`) and none leads.
    Raises JournalError WORKER_NOT_STARTED once all were tried: each run that has none says why.
    """
    moment = now or utc_now()
    found = [
        r
        for r in journal.stale(STALE_AFTER, moment)
        if not _left_to_service(journal, r, awaited, moment) and journal.claim(r, moment)
    ]
    failed = None
    for run in found:
        try:
            spawn(settings, run.run_id, again=True)
        except JournalError as error:
            failed = error
            stop_rules.leave(journal, run.run_id, error, moment)
    if failed is not None:
        raise failed
    return [run.run_id for run in found]


def request_pause(settings: Settings, journal: Journal, run_id: str, who: Who) -> None:
    """Ask an open run to send nothing more for now.

    Raises RefusedError RUN_CLOSED, RUN_CANCELLED, ROLE_TOO_LOW.
    """
    _wish(settings, journal, run_id, "pause", who)


def request_resume(settings: Settings, journal: Journal, run_id: str, who: Who) -> None:
    """Ask a paused run to go on. Raises RefusedError RUN_CLOSED, RUN_CANCELLED, ROLE_TOO_LOW."""
    _wish(settings, journal, run_id, None, who)


def request_cancel(settings: Settings, journal: Journal, run_id: str, who: Who) -> None:
    """Ask an open run to leave out what is not sent, for good.

    Raises RefusedError RUN_CLOSED, ROLE_TOO_LOW.
    """
    _wish(settings, journal, run_id, "cancel", who)


def switch_read_only(settings: Settings, journal: Journal, value: bool, who: Who) -> None:
    """Stop every purge, policy and sweep at once, or allow them again: an approver's switch.

    Raises RefusedError ROLE_TOO_LOW.
    """
    name = people.require(settings, who, "approver", "stop or allow every purge")
    journal.set_read_only(value, name, utc_now())


def wait(
    settings: Settings,
    journal: Journal,
    run_id: str,
    *,
    timeout: timedelta | None = None,
    for_receipt: bool = False,
) -> RunView:
    """The run once it is closed (or, `for_receipt`, its receipt final), or as it is at `timeout`.

    A worker that dies meanwhile is started again.
    """
    deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
    look_at = time.monotonic() + _LOOK_SECONDS
    while True:
        seen = journal.file.version()
        run = journal.head(run_id)
        closed = not run.open and (not for_receipt or run.receipt_final)
        if closed or (deadline is not None and time.monotonic() >= deadline):
            return journal.run(run_id)
        while journal.file.version() == seen and time.monotonic() < look_at:
            time.sleep(_GLANCE_SECONDS)
        if time.monotonic() >= look_at:
            respawn_stale(settings, journal, awaited=run_id)
            look_at = time.monotonic() + _LOOK_SECONDS


def _left_to_service(journal: Journal, run: RunRow, awaited: str | None, now: datetime) -> bool:
    if run.open or run.policy is None:
        return False
    lease = journal.lease(run.cluster_id)
    return run.run_id != awaited or (lease is not None and lease.alive(now))


def _wish(settings: Settings, journal: Journal, run_id: str, wish: str | None, who: Who) -> None:
    name = people.require(settings, who, "operator", f"{wish or 'resume'} run {run_id}")
    journal.set_wish(run_id, wish, name, utc_now())


def _stored_connection(settings: Settings, plan: Plan) -> dict[str, str | None]:
    local = "://" not in settings.data
    return {
        "cluster_id": plan.cluster_id,
        "data": str(Path(settings.data).absolute()) if local else settings.data,
        "settings": str(settings.source.absolute()) if settings.source else None,
        **pinned(),
    }


def _options(
    settings: Settings, timeout: timedelta | None, canary: bool, archive: str | None
) -> Options:
    purge = settings.purge
    unsent_for = purge.plan_expires_after
    if archive is not None:
        unsent_for += settings.archive.most_time
    wait_for = purge.request_timeout if timeout is None else check_request_timeout(timeout)
    return Options(
        timeout_ms=_milliseconds(wait_for),
        partitions_per_request=purge.partitions_per_request,
        requests_in_flight=purge.requests_in_flight,
        watch_for_ms=_milliseconds(purge.watch_for),
        canary=canary,
        stop_at_error_share=purge.stop_at_error_share,
        stop_at_least_answered=purge.stop_at_least_answered,
        stop_on_isr_loss=purge.stop_on_isr_loss,
        unsent_for_ms=_milliseconds(unsent_for),
        most_silence_ms=_milliseconds(purge.most_silence),
        broker_timeout_ms=_milliseconds(settings.broker_timeout),
        archive=archive,
    )


def _milliseconds(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
