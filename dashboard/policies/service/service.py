"""Carries out the policies of one cluster, again and again, while it holds the cluster's lease.

What the settings say is read again before each look. What was done is in the journal alone: a
service that is killed and started again knows from there when each partition's purge last began.
The interval is between starts; commits play no part in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from dashboard.core.clock import format_time
from dashboard.core.errors import ClusterError, LowwaterError, SettingsError, unexpected
from dashboard.core.processes import Stop
from dashboard.policies.matching import Triggered, newest, triggered
from dashboard.policies.service import cycle
from dashboard.policies.service.following import Following
from dashboard.policies.service.leading import RENEW_EVERY, Lead, Link, OpenCluster
from dashboard.policies.service.outcome import Emit, Outcome, Statuses, of_error
from dashboard.policies.service.purging import Applications, Job, Site, at_once
from dashboard.policies.service.switching import is_for, on_and_undefined, standing
from dashboard.purge.jobs.queue import STALE_AFTER
from dashboard.purge.jobs.queue_refusals import stopped
from dashboard.purge.journal.policies import Hold, Lease, PolicyState
from dashboard.purge.receipt.receipt import Checkpoints
from dashboard.settings.current import wrong
from dashboard.settings.policies.policy import Policy, is_open, next_open

_MOST_BACKOFF = timedelta(seconds=30)
_SHORTEST_SECONDS = 0.05


class Service:
    """One service of one cluster; `turn` is one step of its loop.

    `start` begins the carrying out of a queued run, in a thread of its own or at once; once
    `stopping` says so, no new run begins. `emit` gets JSON-able events. `outdated` says before each
    look whether `open_live` would sign in otherwise by now. The service may die between any two
    writes of the journal.
    """

    def __init__(
        self,
        site: Site,
        open_live: Callable[[], OpenCluster],
        *,
        emit: Emit,
        start: Callable[[Job], None] = at_once,
        stopping: Callable[[], bool] = lambda: False,
        outdated: Callable[[], bool] = lambda: False,
    ) -> None:
        self.site = site
        self._outdated = outdated
        self.link = Link(open_live)
        self._most_silence = site.settings.purge.most_service_silence
        self.lead = Lead(site.journal, site.cluster_id, self._silence)
        self.statuses = Statuses(site.journal, site.cluster_id, site.store.name, emit)
        self.following = Following(
            site.journal, self.link.live, site.now, site.sleep, self.went_wrong,
            site.current.started.state_dir, Checkpoints(site.store, site.now),
        )  # fmt: skip
        self.applications = Applications(
            site, link=self.link, lead=self.lead, statuses=self.statuses,
            following=self.following, start=start, stopping=stopping,
        )  # fmt: skip
        self.policies = self._defined()
        self._next_look: dict[str, datetime] = {}
        self._leader: str | None = None
        self._leading = False
        self._adopted_at: datetime | None = None
        self._retry_at: datetime | None = None
        self._failures = 0
        self.error: LowwaterError | None = None  # of the last turn
        self.leader: Lease | None = None

    def turn(self) -> float:
        """One step: seconds until the next, at most RENEW_EVERY. What fails is tried again."""
        now = self.site.now()
        try:
            if self._leads(now) and not _ahead(self._retry_at, now, _MOST_BACKOFF):
                self._adopt(now)
                self._round(now)
                self._failures, self._retry_at, self.error = 0, None, None
                self.statuses.well()
        except LowwaterError as error:
            self._back_off(error, now)
        except Exception as error:
            self._back_off(unexpected(error), now)
        return self._wait()

    def follow_once(self) -> None:
        """One look at every run that is followed: for a single cycle, the next call goes on."""
        for run_id in self.following.runs:
            self.following.look(run_id)

    def went_wrong(self, error: LowwaterError) -> None:
        """Tell what went wrong beside the loop: it goes on."""
        self.statuses.error(error, self.site.now(), beside=True)

    def close(self) -> None:
        """Give up the lease and the connection; whatever is still in flight is taken over."""
        try:
            self.lead.release(self.site.now())
        except LowwaterError as error:
            self.went_wrong(error)
        self.link.close()

    def _leads(self, now: datetime) -> bool:
        """Whether we do; it is told when that changes."""
        self.leader = lease = self.lead.leader(now)
        self._leading = lease is not None and self.lead.is_ours(lease)
        if lease is not None and lease.holder != self._leader:
            self._leader = lease.holder
            leader = {"host": lease.host, "pid": lease.pid, "since": format_time(lease.taken_at)}
            self.statuses.event("leading" if self._leading else "standby", now, leader=leader)
            self._adopted_at = None
        if not self._leading:
            self.following.clear()
        return self._leading

    def _adopt(self, now: datetime) -> None:
        """Take over policies' runs whose holder gives no sign of life, open or still followed."""
        next_at = self._adopted_at and self._adopted_at + STALE_AFTER
        if _ahead(next_at, now, STALE_AFTER):
            return
        self._adopted_at = now
        stale = self.site.journal.stale(STALE_AFTER, now)
        if stale or self.following.runs:
            self._sign_in_anew()  # who stood by has a connection of when it led
        for run in stale:
            if run.policy is None or run.cluster_id != self.site.cluster_id:
                continue
            if not run.open:
                self.following.add(run.run_id)
            elif run.run_id not in self.applications.in_flight and self.site.journal.claim(
                run, now
            ):
                self.applications.take_over(run)

    def _round(self, now: datetime) -> None:
        states = self.site.journal.policy_states(self.site.cluster_id)
        held = self._settings_wrong()
        if held is None:
            self._hold_taken_out(states, now)
        held = held or self._held()
        wanted = []
        for policy in self.policies:
            outcome = _kept_from(policy, states.get(policy.name), now) or held
            if outcome is not None:
                self.statuses.whole(policy.name, outcome, now)
                self._next_look.pop(policy.name, None)
            elif not _ahead(self._next_look.get(policy.name), now, cycle.LONGEST_PACE):
                wanted.append(policy)
        if wanted:
            self._sign_in_anew()
            seen = cycle.look(self.link.live())
            for policy in wanted:
                self._look(policy, seen, now)

    def _sign_in_anew(self) -> None:
        """Before brokers that restart refuse, each for itself, what our connection began with."""
        if not self._outdated():
            return
        if not self.applications.in_flight:
            self.link.tidy()  # of the time before: looks at followers may still use the newest
        if (error := self.link.renew()) is not None:
            self.went_wrong(error)  # brokers would tell it one by one as they restart

    def _defined(self) -> tuple[Policy, ...]:
        """The policies of this cluster, as the settings say now. Raises SettingsError."""
        return tuple(p for p in self.site.settings.policies if is_for(p, self.site.store))

    def _silence(self) -> timedelta:
        """As the settings say now; where they are wrong by now, as they said last."""
        with suppress(SettingsError):
            self._most_silence = self.site.settings.purge.most_service_silence
        return self._most_silence

    def _settings_wrong(self) -> Outcome | None:
        """Read the settings again; what is wrong with them holds every policy that was known."""
        try:
            self.policies = self._defined()
            names = {policy.name for policy in self.policies}
            self._next_look = {n: at for n, at in self._next_look.items() if n in names}
        except SettingsError as error:
            text = f"{wrong(self.site.current.started.source, error)}. {error.next_step}"
            return Outcome("waiting", text, code="READ_ONLY")
        return None

    def _hold_taken_out(self, states: Mapping[str, PolicyState], now: datetime) -> None:
        """What settings that are right define no more waits for a person, should it come back."""
        undefined = on_and_undefined(states.values(), self.policies, self.site.store)
        if any(state.hold is None for state in undefined):
            defined = {policy.name for policy in self.policies}
            self.site.journal.hold_taken_out(self.site.cluster_id, defined, now)

    def _held(self) -> Outcome | None:
        """The read-only switch, of the settings or of an approver, holds every policy."""
        reason = stopped(self.site.settings, self.site.journal)
        return None if reason is None else Outcome("waiting", reason, code="READ_ONLY")

    def _look(self, policy: Policy, seen: cycle.Seen, now: datetime) -> None:
        """One policy's cycle; what goes wrong with it stops no other."""
        self._next_look[policy.name] = now + cycle.pace(policy)
        try:
            found = self._triggered(policy, now)
        except LowwaterError as error:
            self.statuses.whole(policy.name, of_error(error, None), now)
            return
        if not found.now:
            outcome = Outcome("not-triggered", found.reason)
            self.statuses.whole(policy.name, outcome, now)
            return
        self._next_look[policy.name] = self.applications.cycle(policy, seen)

    def _triggered(self, policy: Policy, now: datetime) -> Triggered:
        """Raises StoreError when the newest findings cannot be read."""
        if policy.trigger.kind == "always":
            return Triggered(True, "always")
        return triggered(policy, newest(self.site.store), now=now, every=self.site.settings.every)

    def _back_off(self, error: LowwaterError, now: datetime) -> None:
        self.error = error
        self._failures = min(self._failures + 1, 10)
        seconds = 2.0 ** (self._failures - 1)
        self._retry_at = now + min(_MOST_BACKOFF, timedelta(seconds=seconds))
        self.statuses.error(error, now)
        if isinstance(error, ClusterError):
            self.link.renew()
            if not self.applications.in_flight:
                self.link.tidy()
            self._say_unreachable(error, now)

    def _say_unreachable(self, error: ClusterError, now: datetime) -> None:
        try:
            states = self.site.journal.policy_states(self.site.cluster_id)
            outcome = replace(of_error(error, None), next_at=self._retry_at)
            for policy in self.policies:
                if standing(policy, states.get(policy.name)) == "on":
                    self.statuses.whole(policy.name, outcome, now)
        except LowwaterError as worse:
            self.went_wrong(worse)

    def _wait(self) -> float:
        """Until a look is due, the lease is to be renewed, or what failed is tried again."""
        now, longest = self.site.now(), RENEW_EVERY.total_seconds()
        if not self._leading:
            return longest
        moments = [self._retry_at] if self._retry_at else list(self._next_look.values())
        seconds = [(at - now).total_seconds() for at in moments]
        return max(_SHORTEST_SECONDS, min([longest, *seconds]))


def _kept_from(policy: Policy, state: PolicyState | None, now: datetime) -> Outcome | None:
    """Why a policy is not looked at; None: it is on, and in a window."""
    stands = standing(policy, state)
    if stands == "off":
        return Outcome("off", "it is switched off")
    if stands == "changed":
        text = (
            "what was confirmed is not what the settings say now: look at it and confirm it again"
        )
        return Outcome("changed", text)
    if stands == "held" and state is not None and state.hold is not None:
        return _of_hold(state.hold)
    if not is_open(policy, now):
        return Outcome("outside-window", "no window is open", next_at=next_open(policy, now))
    return None


def _of_hold(hold: Hold) -> Outcome:
    return Outcome("held", f"{hold.why}; {hold.ask}, then confirm it again", code=hold.code)


def _ahead(moment: datetime | None, now: datetime, most: timedelta) -> bool:
    """Whether a moment that was at most so far ahead is still to come; not after a step back."""
    return moment is not None and now < moment <= now + most


# Runs a service with its threads for lease, runs in flight and receipts, and what is beside it.

_LEASE_SECONDS = 1.0  # it is renewed when that is due; asking costs nothing
_BESIDE_SECONDS = 10.0
_AFTER_ERROR_SECONDS = 5.0
_JOIN_SECONDS = 0.2

Beside = Callable[[], None]


def serve(
    site: Site,
    open_live: Callable[[], OpenCluster],
    *,
    emit: Emit,
    stop: Stop,
    beside: Sequence[Beside] = (),
    once: bool = False,
    outdated: Callable[[], bool] = lambda: False,
) -> Service:
    """Carry out policies until `stop`, or (`once`) for one cycle of each; the service, closed.

    After `stop` no run begins; those in flight end as a worker would end them, for as long as two
    of their requests may take. What is left then is taken over as if the process had died. What is
    done `beside`, every ten seconds, stops nothing when it fails. `outdated` is the Service's.
    """
    flights = _Flights()
    service = Service(
        site, open_live, emit=emit, start=flights.start, stopping=stop.is_set, outdated=outdated
    )
    over = threading.Event()
    began = site.current.started
    helpers = [_helper("lease", lambda: _renew(service), over, service)]
    if not once:
        helpers.append(_helper("following", service.following.turn, over, service))
    for number, each in enumerate(() if once else beside):
        helpers.append(_helper(f"beside-{number}", partial(_done, each), over, service))
    try:
        _turns(service, stop, once=once)
        flights.wait(2 * began.purge.request_timeout + timedelta(seconds=10))
        if once:
            service.follow_once()
    finally:
        over.set()
        for helper in helpers:
            helper.join(began.broker_timeout.total_seconds())
        service.close()
    return service


def _turns(service: Service, stop: Stop, *, once: bool) -> None:
    while not stop.is_set():
        wait = service.turn()
        if once:
            return
        stop.wait(wait)


def _renew(service: Service) -> float:
    service.lead.leader(service.site.now())
    return _LEASE_SECONDS


def _done(beside: Beside) -> float:
    beside()
    return _BESIDE_SECONDS


def _helper(
    name: str, step: Callable[[], float], over: threading.Event, service: Service
) -> threading.Thread:
    """A thread that takes one step after another; a step that fails is told and tried again."""

    def loop() -> None:
        wait = 0.0
        while not over.wait(wait):
            try:
                wait = step()
            except LowwaterError as error:
                service.went_wrong(error)
                wait = _AFTER_ERROR_SECONDS
            except Exception as error:
                service.went_wrong(unexpected(error))
                wait = _AFTER_ERROR_SECONDS

    thread = threading.Thread(target=loop, daemon=True, name=name)
    thread.start()
    return thread


class _Flights:
    """Threads of the runs in flight: most of their time they wait for brokers."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def start(self, job: Job) -> None:
        """Do a job beside the others; the process does not outlive it for long."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=job, daemon=True, name="purge")
        self._threads.append(thread)
        thread.start()

    def wait(self, patience: timedelta) -> None:
        """Until all are over, or for so long."""
        until = time.monotonic() + patience.total_seconds()
        while any(t.is_alive() for t in self._threads) and time.monotonic() < until:
            for thread in self._threads:
                thread.join(_JOIN_SECONDS)
