"""The queue: a confirmed plan becomes a run, and a detached worker process carries it out."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

from dashboard.clock import utc_now
from dashboard.errors import RefusedError, UsageError
from dashboard.purge.journal import Journal
from dashboard.purge.journal_rows import MODES, Options, RunView
from dashboard.purge.plan import Plan
from dashboard.purge.worker_process import ReadyWorker, spawn
from dashboard.settings import Settings

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
    who: str,
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
    started before the run was known. Raises UsageError
    MODE_UNKNOWN; RefusedError READ_ONLY, PLAN_EDITED, CONFIRMATION_MISMATCH, PLAN_EXPIRED,
    NOT_LIFTABLE, NOTHING_FREE, PLAN_ALREADY_APPLIED, TOPIC_BUSY; JournalError. Nothing is sent.
    """
    moment = now or utc_now()
    if mode not in MODES:
        raise UsageError(
            f"'{mode}' is not a mode", f"Choose one of: {', '.join(MODES)}.", code="MODE_UNKNOWN"
        )
    _refuse_read_only(settings, journal)
    _refuse_other_text(plan, confirm, sha256)
    _refuse_again_or_late(journal, plan, token, moment)
    _refuse_forbidden_overrides(settings, plan)
    purge = settings.purge
    run_id, is_new = journal.insert(
        plan,
        token=token,
        mode=mode,
        who=who,
        from_where=from_where or socket.gethostname(),
        typed=confirm,
        options=Options(
            timeout_ms=_milliseconds(timeout or purge.request_timeout),
            partitions_per_request=purge.partitions_per_request,
            requests_in_flight=purge.requests_in_flight,
            watch_for_ms=_milliseconds(purge.watch_for),
            canary=canary,
            stop_at_error_share=purge.stop_at_error_share,
            stop_at_least_answered=purge.stop_at_least_answered,
            stop_on_isr_loss=purge.stop_on_isr_loss,
        ),
        connection={**_stored_connection(settings, plan), **(connection or {})},
        now=moment,
    )
    if is_new and worker is not None:
        worker.take(run_id)
    elif is_new and start:
        spawn(settings, run_id)
    return run_id


def respawn_stale(
    settings: Settings, journal: Journal, *, now: datetime | None = None
) -> list[str]:
    """Start a worker for each run that has work left and no sign of life; their ids.

    Of many callers at once one starts it, and again only after another STALE_AFTER of silence.
    """
    moment = now or utc_now()
    found = [r.run_id for r in journal.stale(STALE_AFTER, moment) if journal.claim(r, moment)]
    for run_id in found:
        spawn(settings, run_id)
    return found


def request_pause(journal: Journal, run_id: str, who: str, now: datetime | None = None) -> None:
    """Ask an open run to send nothing more for now. Raises RefusedError RUN_CLOSED."""
    _wish(journal, run_id, "pause", who, now)


def request_resume(journal: Journal, run_id: str, who: str, now: datetime | None = None) -> None:
    """Ask a paused run to go on. Raises RefusedError RUN_CLOSED."""
    _wish(journal, run_id, None, who, now)


def request_cancel(journal: Journal, run_id: str, who: str, now: datetime | None = None) -> None:
    """Ask an open run to leave out what is not yet sent. Raises RefusedError RUN_CLOSED."""
    _wish(journal, run_id, "cancel", who, now)


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
            respawn_stale(settings, journal)
            look_at = time.monotonic() + _LOOK_SECONDS


def _wish(journal: Journal, run_id: str, wish: str | None, who: str, now: datetime | None) -> None:
    run = journal.head(run_id)
    if not run.open:
        raise RefusedError(
            f"run {run_id} is {run.state} already",
            f"See what it did with: lowwater run {run_id}.",
            code="RUN_CLOSED",
        )
    journal.set_wish(run_id, wish, who, now or utc_now())


def _refuse_read_only(settings: Settings, journal: Journal) -> None:
    if settings.read_only or journal.read_only():
        where = "the settings" if settings.read_only else "an approver, in the journal,"
        raise RefusedError(
            f"{where} switched every purge off",
            "Switch read_only off first.",
            code="READ_ONLY",
        )


def _refuse_other_text(plan: Plan, confirm: str, sha256: str | None) -> None:
    if sha256 is not None and sha256 != plan.sha256:
        raise RefusedError(
            f"the plan is not the one that was previewed: its sha256 is {plan.sha256}",
            "Preview it again, and confirm what you then see.",
            code="PLAN_EDITED",
        )
    if not plan.free_partitions:
        raise RefusedError(
            f"plan {plan.plan_id} has no partition free of guards",
            "Read the guards in its preview; each says what lifts it.",
            code="NOTHING_FREE",
        )
    if confirm != plan.confirmation:
        raise RefusedError(
            f"'{confirm}' is not the confirmation of this plan",
            f"Repeat exactly: {plan.confirmation}",
            code="CONFIRMATION_MISMATCH",
        )


def _refuse_forbidden_overrides(settings: Settings, plan: Plan) -> None:
    """A plan made under other settings, or by hand, may lift what these settings do not."""
    for override in plan.overrides:
        if override.name not in settings.purge.liftable_guards:
            raise RefusedError(
                f"the plan overrides {override.name}, which these settings do not allow",
                "Plan again without it, or allow it with liftable_guards in [purge].",
                code="NOT_LIFTABLE",
            )


def _refuse_again_or_late(journal: Journal, plan: Plan, token: str, now: datetime) -> None:
    if plan.expired(now) and not journal.knows(plan.sha256, token):
        _refuse_late(plan)


def _refuse_late(plan: Plan) -> NoReturn:
    raise RefusedError(
        f"plan {plan.plan_id} expired at {plan.expires_at:%Y-%m-%d %H:%M:%S} UTC",
        "Plan again: what it saw may have changed.",
        code="PLAN_EXPIRED",
    )


def _stored_connection(settings: Settings, plan: Plan) -> dict[str, str | None]:
    local = "://" not in settings.data
    return {
        "cluster_id": plan.cluster_id,
        "data": str(Path(settings.data).absolute()) if local else settings.data,
        "settings": str(settings.source.absolute()) if settings.source else None,
    }


def _milliseconds(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)
