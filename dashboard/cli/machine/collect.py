"""`lowwater collect`: one snapshot of a cluster into the data folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_connection, add_inventory, add_metrics, add_verb
from dashboard.core.clock import utc_now
from dashboard.core.visible import in_lines
from dashboard.settings.metric_addresses import parse_sources
from dashboard.settings.settings import Settings

if TYPE_CHECKING:
    from dashboard.broker_metrics.sources import Sources
    from dashboard.inventory.loading import Inventory


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "collect",
        description="Takes one snapshot: topics, offsets of every replica, log dirs, groups and\n"
        "configs. Reads only. A broker that is down costs its own rows, is named, and the exit\n"
        "code is 0; only when nothing could be read it is 4.",
        examples=(
            "lowwater collect --bootstrap-server localhost:9092 --name prod --data ./data",
            "lowwater collect --bootstrap-server h:9093 --client-config client.properties",
            "lowwater collect --cluster prod-eu --metrics 1=http://kafka-1:7071/metrics",
            "lowwater collect --cluster prod-eu --inventory 1.inventory --inventory 2.inventory",
            "lowwater collect --cluster prod-eu --json      # [clusters.prod-eu] of the settings",
        ),
    )
    add_connection(parser)
    add_metrics(parser)
    add_inventory(parser)


def run(args: argparse.Namespace) -> int:
    """Collect once. Raises UsageError, SettingsError, InventoryError, ClusterError, StoreError."""
    settings = context.read_settings(args)
    target = context.target(args, settings)
    sources = metrics_sources(args, settings, target)
    store = context.open_store(settings.data)
    from dashboard.cluster.live import connect
    from dashboard.collect.collect import collect
    from dashboard.store import attempts

    inventories = _inventories(args.inventory)
    output.progress(f"asking {target.bootstrap_servers} …")
    with attempts.connecting(store, target.is_of, utc_now, output.progress):
        reached = connect(target.client, settings.broker_timeout)
    with reached as live:
        cluster = context.remember(store, live.cluster_id(), target)
        collected = collect(
            live,
            cluster,
            now=utc_now,
            progress=output.progress,
            metrics=sources,
            inventories=inventories,
            keep=lambda: settings.snapshots,
        )
    value = {**collected.to_json(), "cluster_id": cluster.cluster_id, "cluster": cluster.name}
    output.emit(value, describe(value), as_json=args.json)
    return 0


def _inventories(files: Sequence[str]) -> Sequence[Inventory]:
    """Those of --inventory. Raises InventoryError."""
    if not files:
        return ()
    from dashboard.inventory.loading import load_all

    return load_all(files)


def metrics_sources(
    args: argparse.Namespace, settings: Settings, target: context.Target
) -> Sources | None:
    """Where brokers' metrics are read, or None. Raises SettingsError METRICS_SOURCE_INVALID."""
    flags = parse_sources(args.metrics or (), "--metrics")
    if not flags and not any(settings.metrics_of(target.name)):
        return None
    from dashboard.broker_metrics.sources import sources_of

    return sources_of(settings, target.name, settings.broker_timeout, flags)


def describe(value: Mapping[str, Any]) -> str:
    """A snapshot's object in words: what was read, and what is missing from it."""
    silent = [b for b in value["brokers"] if not b["reachable"]]
    tables = ", ".join(f"{name} {rows}" for name, rows in sorted(value["tables"].items()))
    lines = [
        f"snapshot {value['snapshot_id']}: {len(value['brokers']) - len(silent)} of "
        f"{len(value['brokers'])} brokers in {value['seconds']:.1f} s",
        f"rows: {tables}",
        *(
            f"disk of broker {i['broker_id']}: {i['segments']} segments, "
            f"seen {_age(i['age_seconds'])}, ages by {i['newest_from']}"
            for i in value["inventories"]
        ),
        *(f"missing: broker {b['broker_id']}: {b['error']}" for b in silent),
        *(f"groups may be incomplete: {reason}" for reason in value["groups_incomplete"]),
        *(
            f"not {'removed' if e['part'] == 'prune' else 'read'}: "
            f"{e['part']} of {e['object']}: {e['error']}"
            for e in value["errors"]
        ),
        *([f"no longer kept: {len(value['removed'])} older"] if value["removed"] else ()),
    ]
    return in_lines(lines)


def _age(seconds: float) -> str:
    """How long ago; a broker's clock may run ahead of ours."""
    return f"{seconds:.0f} s ago" if seconds >= 0 else f"{-seconds:.0f} s ahead of this clock"
