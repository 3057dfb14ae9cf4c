"""`lowwater metrics`: our own metrics as Prometheus text, served on loopback or printed once."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.clock import utc_now
from dashboard.core.errors import UsageError
from dashboard.core.visible import in_lines

if TYPE_CHECKING:
    from dashboard.exporter.own_reading import Reader
    from dashboard.settings.settings import Settings

HOST = "127.0.0.1"
DEFAULT_PORT = 9464


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "metrics",
        description="Tells the newest findings and purges as Prometheus metrics: reclaimable and\n"
        "held bytes, orphans under KIP-370's names, ages, missing brokers, receipts. Reads the\n"
        "data folder and the journal alone: neither Kafka nor Spark is asked.",
        examples=(
            f"lowwater metrics --port {DEFAULT_PORT} --data ./data",
            "lowwater metrics --once",
            "lowwater metrics --once --json",
            "lowwater metrics --exporter-rules > kafka.yaml    # for brokers' JMX exporters",
        ),
    )
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT,
        help=f"port to listen on (default {DEFAULT_PORT}; 0: a free one)",
    )  # fmt: skip
    parser.add_argument(
        "--host", default=HOST, help=f"address to listen on (default {HOST}: this machine alone)"
    )
    parser.add_argument(
        "--exporter-rules", action="store_true",
        help="print the rules file that brokers' JMX exporters need, and end",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="print them and end")
    parser.add_argument(
        "--top", type=int, metavar="N",
        help="topics and groups with series of their own, above the settings",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print, or serve until Ctrl-C (130). Raises UsageError PORT_TAKEN, StoreError."""
    if args.top is not None and args.top < 1:
        raise UsageError(f"--top {args.top} is no number of series", "Give a number above 0.")
    if args.exporter_rules:
        from dashboard.broker_metrics.exposition import RULES

        output.emit({"rules": RULES}, in_lines(RULES.rstrip("\n").split("\n")), as_json=args.json)
        return 0
    settings = context.read_settings(args)
    with _reader(args, settings) as reader:
        top = args.top or settings.metrics_top
        return _once(args, reader, top) if args.once else _serve(args, reader, top)


def _once(args: argparse.Namespace, reader: Reader, top: int) -> int:
    from dashboard.exporter import own

    found = own.families(reader.read(), utc_now(), top)
    value = {"cluster_id": reader.cluster.cluster_id, "samples": own.samples(found)}
    text = in_lines(own.text(found).decode().rstrip("\n").split("\n"))
    output.emit(value, text, as_json=args.json)
    return 0


def _serve(args: argparse.Namespace, reader: Reader, top: int) -> int:
    from dashboard.exporter import own
    from dashboard.exporter.serve import MetricsServer

    def render() -> bytes:
        return own.text(own.families(reader.read(), utc_now(), top))

    with MetricsServer(args.host, args.port, render, output.progress) as server:
        output.emit({"url": server.url}, f"{server.url}  (Ctrl-C ends it)", as_json=args.json)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            output.progress("metrics ended")
    return output.INTERRUPTED


@contextmanager
def _reader(args: argparse.Namespace, settings: Settings) -> Iterator[Reader]:
    """What reads the cluster's folder and the journal; a journal that is not there is not made."""
    from dashboard.exporter.own_reading import Reader
    from dashboard.purge.journal.journal import Journal, open_default

    cluster = context.open_store(settings.data).cluster(args.cluster)
    opened: list[Journal] = []

    def journal() -> Journal | None:
        if not opened and context.journal_exists(settings):
            opened.append(open_default(settings))
        return opened[0] if opened else None

    try:
        yield Reader(cluster, journal, settings.price.of(cluster.name, cluster.cluster_id))
    finally:
        for found in opened:
            found.close()
