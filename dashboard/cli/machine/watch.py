"""`lowwater watch`: collects again and again and has each snapshot analyzed, until Ctrl-C."""

from __future__ import annotations

import _thread
import argparse
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.machine.collect import describe, metrics_sources
from dashboard.cli.parser import Verbs, add_connection, add_inventory, add_metrics, add_verb
from dashboard.core.clock import parse_duration, utc_now
from dashboard.core.errors import LowwaterError, UsageError
from dashboard.core.visible import in_lines

if TYPE_CHECKING:
    from dashboard.cluster.live import LiveCluster
    from dashboard.store.snapshots import ClusterStore

_SHORTEST = timedelta(seconds=1)


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "watch",
        description="The one loop: takes a snapshot every --every and has one long-lived Spark\n"
        "process analyze it. Prints one event a line; outages are events, and it goes on.",
        examples=(
            "lowwater watch --bootstrap-server localhost:9092 --data ./data --every 60s",
            "lowwater watch --cluster prod-eu --json",
        ),
    )
    add_connection(parser)
    add_metrics(parser)
    add_inventory(parser)
    parser.add_argument("--every", metavar="60s", help="time between snapshots; else the settings'")


def run(args: argparse.Namespace) -> int:
    """Loop until Ctrl-C or SIGTERM: 130.

    Raises UsageError, SettingsError, InventoryError, ClusterError.
    """
    settings = context.read_settings(args)
    target = context.target(args, settings)
    sources = metrics_sources(args, settings, target)
    every = _every(args, settings.every)
    store = context.open_store(settings.data)
    from dashboard.cluster.live import connect
    from dashboard.collect import watch
    from dashboard.settings.client_properties import LastOpened
    from dashboard.settings.current import CurrentSettings
    from dashboard.store import attempts

    current = CurrentSettings(settings)

    def remember(cluster: ClusterStore) -> None:
        context.remember(store, cluster.cluster_id, target)

    last = LastOpened()

    def open_live() -> LiveCluster:
        refresh()
        noted = attempts.connecting(store, target.is_of, utc_now, output.progress, again=True)
        with last.opening(target.client), noted:
            return connect(target.client, settings.broker_timeout)

    def refresh() -> bool:
        nonlocal target
        with suppress(LowwaterError):  # what cannot be read now: as it was reached before
            target = context.target(args, current.get())
        return last.outdated(target.client)

    output.progress(f"watching {target.bootstrap_servers} every {every.total_seconds():g} s …")
    try:
        watch.run(
            open_live,
            store,
            every=every,
            now=utc_now,
            emit=lambda event: _emit(event, as_json=args.json),
            progress=output.progress,
            remember=remember,
            metrics=sources,
            inventories=args.inventory,
            keep=lambda: current.get().snapshots,
            each_round=lambda: context.respawn(settings),
            outdated=refresh,
        )
    except KeyboardInterrupt:
        output.progress("watch ended")
    return output.INTERRUPTED


def _every(args: argparse.Namespace, default: timedelta) -> timedelta:
    every = parse_duration(args.every) if args.every else default
    if every < _SHORTEST:
        raise UsageError(
            f"every {every.total_seconds():g} s is too often", "Give --every 1s or longer."
        )
    return every


def _emit(event: Mapping[str, Any], *, as_json: bool) -> None:
    """One event, from any thread. A reader that went away ends the loop as Ctrl-C does."""
    try:
        output.emit_line(event, _text(event), as_json=as_json)
    except BrokenPipeError:
        output.close_stdout()
        _thread.interrupt_main()


def _text(event: Mapping[str, Any]) -> str:
    if "error" in event:
        error = event["error"]
        return in_lines([f"{event['event']} failed: {error['message']}", f"next: {error['next']}"])
    if event["event"] == "snapshot":
        return describe(event)
    if event["event"] == "analysis-ready":
        return f"analysis ready after {event['seconds'] or 0:.1f} s"
    return f"analysis {event.get('analysis_id')} in {event.get('seconds') or 0:.1f} s"
