"""Runs a service with its threads for lease, runs in flight, receipts and alerts until it stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta

from dashboard.core.errors import LowwaterError, unexpected
from dashboard.core.processes import Stop
from dashboard.policies.service.applications import Job
from dashboard.policies.service.leading import OpenCluster
from dashboard.policies.service.purging import Site
from dashboard.policies.service.service import Service
from dashboard.policies.service.statuses import Emit

_LEASE_SECONDS = 1.0  # it is renewed when that is due; asking costs nothing
_ALERT_SECONDS = 10.0
_AFTER_ERROR_SECONDS = 5.0
_JOIN_SECONDS = 0.2

Alert = Callable[[], None]


def serve(
    site: Site,
    open_live: Callable[[], OpenCluster],
    *,
    emit: Emit,
    stop: Stop,
    alert: Alert | None = None,
    once: bool = False,
) -> Service:
    """Carry out policies until `stop`, or (`once`) for one cycle of each; the service, closed.

    After `stop` no run begins; those in flight end as a worker would end them, for as long as two
    of their requests may take. What is left then is taken over as if the process had died.
    """
    flights = _Flights()
    service = Service(site, open_live, emit=emit, start=flights.start, stopping=stop.is_set)
    over = threading.Event()
    began = site.current.started
    helpers = [_helper("lease", lambda: _renew(service), over, service)]
    if not once:
        helpers.append(_helper("following", service.following.turn, over, service))
    if alert is not None and not once:
        helpers.append(_helper("alerts", lambda: _alert(alert), over, service))
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


def _alert(alert: Alert) -> float:
    alert()
    return _ALERT_SECONDS


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
