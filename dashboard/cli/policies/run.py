"""`lowwater policies run`: the service that carries policies out, one event a line."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Parser, add_reached
from dashboard.core.clock import format_time, utc_now
from dashboard.core.errors import (
    ClusterError,
    LowwaterError,
    RefusedError,
    SettingsError,
    UsageError,
)
from dashboard.core.processes import Stop
from dashboard.core.visible import in_lines
from dashboard.settings.client_properties import LastOpened

if TYPE_CHECKING:
    from dashboard.cluster.live import LiveCluster
    from dashboard.policies.service.alerts import Alerts
    from dashboard.policies.service.purging import Site
    from dashboard.policies.service.service import Service
    from dashboard.purge.journal.journal import Journal
    from dashboard.settings.policies.policy import Policy
    from dashboard.settings.settings import Settings
    from dashboard.store.snapshots import ClusterStore


def add_flags(parser: Parser) -> None:
    """The flags of `run`, and those that say how `run` and `check` reach the cluster."""
    parser.add_argument("--once", action="store_true", help="with run: one cycle, then end")
    add_reached(parser)


def refuse_flags(args: argparse.Namespace) -> None:
    """Raises UsageError for a flag that the action does not take."""
    if args.once and args.action != "run":
        raise UsageError(f"lowwater policies {args.action} takes no --once", "Leave it out.")


def run(
    args: argparse.Namespace,
    settings: Settings,
    cluster: ClusterStore,
    policies: tuple[Policy, ...],
) -> int:
    """Serve until Ctrl-C or SIGTERM: 130. With --once: 0, 2 (a run is partial, or not over), 3 (all
    refused or held), 4 (no run, and of some application the cluster gave no answer).

    Raises JournalError; with --once also ClusterError and RefusedError NOT_LEADING.
    """
    from dashboard.policies.service.alerts import Alerts
    from dashboard.policies.service.service import serve

    told = _Told(as_json=args.json, once=args.once)
    with context.open_journal(settings) as journal, _signals(told.stop):
        site = site_of(args, settings, cluster, journal)
        names = ", ".join(policy.name for policy in policies)
        output.progress(f"policies of {cluster.name}: {names}")
        alerts = Alerts(settings, journal, cluster.cluster_id, cluster.name)
        opener = Opener(args, site)
        service = serve(
            site,
            opener,
            outdated=opener.outdated,
            emit=told.event,
            stop=told.stop,
            beside=(
                lambda: told.alerts(alerts, site),
                lambda: context.respawn(site.settings),  # of people's runs
            ),
            once=args.once,
        )
        if args.once:
            told.alerts(alerts, site)
    if told.stop.is_set():
        output.progress("policies ended")
        return output.INTERRUPTED
    return _once(service, told)


def site_of(
    args: argparse.Namespace, settings: Settings, cluster: ClusterStore, journal: Journal
) -> Site:
    """Where the service acts. Raises SettingsError."""
    from dashboard.policies.service.purging import Site
    from dashboard.settings.current import CurrentSettings

    current = CurrentSettings(settings)
    return Site(current, cluster, journal, utc_now, time.sleep, context.connection_of(args))


class Opener:
    """What opens the cluster, as `apply` reaches it and the settings say each time."""

    def __init__(self, args: argparse.Namespace, site: Site) -> None:
        """Raises SettingsError CONNECTION_UNKNOWN."""
        self._args, self._site, self._last = args, site, LastOpened()
        self._client(site.settings)

    def __call__(self) -> LiveCluster:
        """The cluster, open. Raises SettingsError, StoreError and ClusterError."""
        from dashboard.cluster.live import connect

        settings = self._site.settings
        client, cluster_id = self._client(settings), self._site.store.cluster_id
        with self._last.opening(client):
            return connect(client, settings.broker_timeout, cluster_id=cluster_id)

    def outdated(self) -> bool:
        """Whether it would sign in otherwise by now; what cannot be read stays as it was."""
        with suppress(LowwaterError):
            return self._last.outdated(self._client(self._site.settings))
        return False

    def _client(self, settings: Settings) -> dict[str, str]:
        from dashboard.store.connections import client_for

        return client_for(settings, self._site.store, context.overrides_of(self._args))


class _Told:
    """Prints events, from any thread, and folds the cycles; a reader that went away ends all."""

    def __init__(self, *, as_json: bool, once: bool = False) -> None:
        self.stop = Stop()
        self._emit = output.emit if once else output.emit_line  # a single cycle's result must come
        self.states: set[str] = set()  # of all cycles: --once ends by them
        self.waiting: set[str | None] = set()  # the codes of those that wait
        self.partial = False
        self._as_json = as_json
        self._lock = threading.Lock()

    def event(self, event: Mapping[str, Any]) -> None:
        with self._lock:
            if event["event"] == "cycle":
                self.states.add(event["state"])
                if event["state"] == "waiting":
                    self.waiting.add(event["code"])
                self.partial |= event["state"] == "ran" and not event["reason"].startswith("done")
            try:
                self._emit(event, _text(event), as_json=self._as_json)
            except BrokenPipeError:
                output.close_stdout()
                self.stop.set()

    def alerts(self, alerts: Alerts, site: Site) -> None:
        """Tell the webhook what is due, and here each message that was tried."""
        now = utc_now()
        with suppress(SettingsError):  # alerts go on as they were: what is wrong may be one of them
            alerts.settings = site.settings
        for tried in alerts.look(now):
            self.event(
                {"event": "alert", "at": format_time(now), "cluster": alerts.cluster_name,
                 "alert": tried.event, "text": tried.text, "failed": tried.error}
            )  # fmt: skip


def _once(service: Service, told: _Told) -> int:
    from dashboard.policies.service.outcome import unanswered

    if service.error is not None:
        raise service.error
    leader = service.leader
    if leader is not None and not service.lead.is_ours(leader):
        raise RefusedError(
            f"process {leader.pid} on {leader.host} carries out the policies of this cluster",
            "Let it; or stop it, and call again.",
            code="NOT_LEADING",
        )
    if left := sorted(service.applications.in_flight):
        output.progress(
            f"not over: run {', '.join(left)}; lowwater run {left[0]} --wait goes on with it"
        )
        return 2
    if "ran" not in told.states:
        if unanswered(told.waiting):
            return ClusterError.exit_code
        if told.states & {"refused", "held"}:
            return RefusedError.exit_code
    return 2 if told.partial else 0


@contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM lets runs in flight end; the second one does not wait."""

    def ended(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        output.progress("ending: what is in flight is finished; again to leave at once")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, ended) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _text(event: Mapping[str, Any]) -> str:
    at = str(event["at"])
    if "error" in event:
        error = event["error"]
        return in_lines([f"{at} {error['message']}", f"next: {error['next']}"])
    if event["event"] == "alert":
        failed = f" (not told: {event['failed']}; tried again)" if event["failed"] else ""
        return f"{at} {event['alert']}: {event['text']}{failed}"
    if event["event"] != "cycle":
        leader = event["leader"]
        who = "this process" if event["event"] == "leading" else "process"
        return f"{at} {event['cluster']}: {who} {leader['pid']} on {leader['host']} leads"
    name = event["policy"] + (f"/{event['application']}" if event["application"] else "")
    run = f" (run {event['run_id']})" if event["run_id"] else ""
    bound = event.get("bytes_at_once"), event.get("bytes_at_once_high")
    size = f", {at_once(*bound)}" if event["run_id"] else ""
    return f"{at} {name}: {event['state']}: {event['reason']}{size}{run}"


def at_once(likely: int | None, most: int | None) -> str:
    """What a purge is predicted to free at once, over all replicas, and the most it may."""
    if likely is None:
        return "bytes not measured"
    bound = "no bound known" if most is None else f"at most {output.size(most)}"
    return f"{output.size(likely)} at once" + ("" if likely == most else f" ({bound})")
