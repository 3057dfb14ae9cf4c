"""`lowwater orphans run`: the service that removes a broker's orphans by itself, on its host."""

from __future__ import annotations

import argparse
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.findings import orphans_sweep
from dashboard.cli.parser import Parser
from dashboard.core.clock import parse_duration, utc_now
from dashboard.core.errors import RefusedError, UsageError
from dashboard.core.visible import in_quotes
from dashboard.core.words import parse_size
from dashboard.people import people

if TYPE_CHECKING:
    from dashboard.domain.acts import RemovalOn
    from dashboard.orphans.removal import Removal, Round
    from dashboard.orphans.sweep.live import Cluster
    from dashboard.orphans.sweep.site import Options
    from dashboard.orphans.verdicts import Verdicts
    from dashboard.settings.settings import Settings
    from dashboard.store.snapshots import ClusterStore

FLAGS = ("once", "every", "most_folders", "most_bytes", "inventory_out", "port", "host")
_NOT = ("verdicts", "apply", "restore", "delete_now", "script", "verify", "name")
_EVERY, _FOLDERS, _BYTES = "10m", 20, "100GiB"
_LEAST_EVERY = timedelta(seconds=1)
_SHORTEST_SECONDS = 0.05
EXAMPLES = (
    "lowwater orphans run --log-dirs /data/a,/data/b --data s3://kafka-lowwater --once",
    "lowwater orphans run --log-dirs /data/a --data DIR --confirm SENTENCE --port 9465",
)


def add_flags(parser: Parser) -> None:
    """The flags of `orphans run` that `orphans sweep` does not have."""
    group = parser.add_argument_group(
        "run, on a broker's host",
        "The service: takes the verdicts of the newest analysis in --data and does what\n"
        "`sweep --apply` does, by the same checks, until Ctrl-C. It looks again every --every,\n"
        "when the check_at of a scheduled verdict has come, and when a folder's time in\n"
        "quarantine is over. Without --confirm it is off: it tells what it would do, and the\n"
        "sentence that switches it on. Takes --log-dirs, --bootstrap-server, --client-config,\n"
        "--quarantine and --quarantine-dir as sweep does. Of two services on a host one acts.\n"
        "read_only stops it between two folders. docs/orphans-service.md tells the rest.",
    )
    group.add_argument("--once", action="store_true", help="one round, then end")
    group.add_argument("--every", metavar=_EVERY, help="longest time between two rounds")
    group.add_argument(
        "--most-folders", type=int, metavar="N",
        help=f"set aside, and delete, at most so many within 24 h ({_FOLDERS})",
    )  # fmt: skip
    group.add_argument("--most-bytes", metavar="SIZE", help=f"the same in bytes of disk ({_BYTES})")
    group.add_argument(
        "--inventory-out", metavar="FILE",
        help="write an inventory of these log dirs there before each round, for `lowwater watch "
        "--inventory FILE`: the next verdicts need one",
    )  # fmt: skip
    group.add_argument(
        "--port", type=int, help="serve metrics of the service at this port (0: a free one)"
    )
    group.add_argument("--host", help="address to listen on (127.0.0.1)")


def refuse_flags(args: argparse.Namespace, *, run: bool) -> None:
    """Raises UsageError for a flag of the other action."""
    other = _NOT if run else FLAGS
    given = next((name for name in other if getattr(args, name) not in (None, False)), None)
    if given is not None:
        mine, its = ("run", "sweep") if run else ("sweep", "run")
        raise UsageError(
            f"lowwater orphans {mine} does not take --{given.replace('_', '-')}",
            f"It belongs to lowwater orphans {its}, or leave it out.",
        )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM: 130; with --once as `sweep` ends.

    Raises UsageError, SettingsError, StoreError, RefusedError CONFIRMATION_MISMATCH, NOT_LEADING
    (--once), JournalError, LogDirError.
    """
    refuse_flags(args, run=True)
    orphans_sweep.check_place(args, "run")
    every = parse_duration(args.every or _EVERY)
    if every < _LEAST_EVERY:
        raise UsageError(f"--every {args.every} is too often", "Give --every 1s or longer.")
    settings, cluster = context.open_cluster(args)
    options = _options(args, settings)
    sentence = _switched(args, options, cluster)
    with _removal(args, settings, cluster, options, every) as removal:
        output.progress(
            "off: it tells what it would do. Switch it on with: --confirm " + in_quotes(sentence)
            if args.confirm is None else f"on: {sentence}"
        )  # fmt: skip
        with _served(args) as show:
            return _loop(args, removal, cluster, show, every)


def _options(args: argparse.Namespace, settings: Settings) -> Options:
    from dashboard.orphans.sweep.report import DayLimit

    folders = _FOLDERS if args.most_folders is None else args.most_folders
    size = parse_size(args.most_bytes or _BYTES)
    if size is None or size < 1 or folders < 1:
        raise UsageError(
            "--most-folders and --most-bytes are at least 1",
            "Write a number, and a size such as 500MiB or 100GiB.",
        )
    found = orphans_sweep.options(args, settings, apply=args.confirm is not None)
    return replace(found, day=DayLimit(folders, size))


def _switched(args: argparse.Namespace, options: Options, cluster: ClusterStore) -> str:
    """The sentence that switches it on. Raises RefusedError CONFIRMATION_MISMATCH."""
    from dashboard.orphans.removal import confirmation

    sentence = confirmation(cluster.called, options)
    if args.confirm not in (None, sentence):
        raise RefusedError(
            f"'{args.confirm}' is not the confirmation of this service as its flags and settings "
            "define it now",
            f"Look at what it says; then repeat exactly: --confirm {in_quotes(sentence)}",
            code="CONFIRMATION_MISMATCH",
        )
    return sentence


@contextmanager
def _removal(
    args: argparse.Namespace,
    settings: Settings,
    cluster: ClusterStore,
    options: Options,
    every: timedelta,
) -> Iterator[Removal]:
    from dashboard.orphans import verdicts
    from dashboard.orphans.removal import Removal

    def judge(now: datetime) -> Verdicts:
        return verdicts.of_analysis(cluster, cluster.latest_analysis(), now=now)

    def admit() -> None:
        if options.apply:
            _switched(args, _options(args, context.read_settings(args)), cluster)
            role = people.deciding_role(settings)
            people.require(settings, context.actor(settings), role, "remove orphans by a service")

    admit()
    with ExitStack() as stack:
        chain = None
        if options.apply:
            chain = stack.enter_context(context.open_journal(settings))
            chain.tell_of_orphans(_said(args, settings, cluster, options), utc_now())
        stopped = stack.enter_context(orphans_sweep.switch(settings, acts=options.apply))
        removal = Removal(
            options, judge, _reach(args, settings, cluster), every=every, now=utc_now,
            stopped=stopped, progress=output.progress, chain=chain, admit=admit,
            before=_inventory(args, options),
        )  # fmt: skip
        stack.callback(removal.close)
        yield removal


def _said(
    args: argparse.Namespace, settings: Settings, cluster: ClusterStore, options: Options
) -> RemovalOn:
    """Who let it act on this broker, as the journal keeps it."""
    from dashboard.domain.acts import RemovalOn
    from dashboard.orphans.removal_story import broker_of

    who, broker_id = people.name_of(context.actor(settings)), broker_of(options)[1]
    typed, host = args.confirm, socket.gethostname()
    return RemovalOn(cluster.cluster_id, broker_id, who, typed, host, tuple(options.log_dirs))


def _inventory(args: argparse.Namespace, options: Options) -> Callable[[], None]:
    """What writes the inventory that the next verdicts need; nothing without the flag."""
    if args.inventory_out is None:
        return lambda: None
    from dashboard.cli.machine import inventory
    from dashboard.orphans.removal_story import broker_of

    output.check_writable(args.inventory_out)
    inventory.refuse_inside(args.inventory_out, options.log_dirs)

    def taken() -> None:
        inventory.scan_to(args.inventory_out, broker_of(options)[1], options.log_dirs)

    return taken


def _reach(
    args: argparse.Namespace, settings: Settings, cluster: ClusterStore
) -> Callable[[], AbstractContextManager[Cluster]]:
    """What opens the cluster for a round, as flags, settings and the last collect say by then."""
    from dashboard.cluster.live import connect
    from dashboard.settings.current import CurrentSettings
    from dashboard.store.connections import client_for

    current = CurrentSettings(settings)

    def reach() -> AbstractContextManager[Cluster]:
        now = current.get()
        client = client_for(now, cluster, context.overrides_of(args))
        return connect(client, now.broker_timeout, cluster_id=cluster.cluster_id)

    return reach


def _loop(
    args: argparse.Namespace,
    removal: Removal,
    cluster: ClusterStore,
    show: Callable[[Round], None],
    every: timedelta,
) -> int:
    from dashboard.orphans.removal import described

    try:
        while True:
            found = removal.turn()
            show(found)
            event = {"cluster": cluster.name, **found.to_json()}
            if args.once:
                return _ended(args, found, event, described(found, cluster.name))
            output.emit_line(event, described(found, cluster.name), as_json=args.json)
            left = min(every, found.next_at - utc_now())  # a clock set back meanwhile is no wait
            time.sleep(max(_SHORTEST_SECONDS, left.total_seconds()))
    except KeyboardInterrupt:
        output.progress("orphans' service ended; the next one goes on from what the logs say")
        return output.INTERRUPTED


def _ended(args: argparse.Namespace, found: Round, event: dict[str, Any], text: str) -> int:
    if found.error is not None and found.report is None:
        raise found.error
    if found.report is None:
        raise RefusedError(
            "another service of this host removes the orphans of this broker",
            "Let it; or stop it, and call again.",
            code="NOT_LEADING",
        )
    output.emit(event, text, as_json=args.json)
    return found.error.exit_code if found.error else found.report.exit_code


@contextmanager
def _served(args: argparse.Namespace) -> Iterator[Callable[[Round], None]]:
    """What shows a round to whoever scrapes; nothing without --port."""
    if args.port is None:
        yield lambda _found: None
        return
    from dashboard.exporter import own
    from dashboard.exporter.serve import MetricsServer
    from dashboard.orphans.removal import removal_families

    last: list[Round] = []
    with MetricsServer(
        args.host or "127.0.0.1", args.port,
        lambda: own.text(removal_families(last[-1] if last else None)),
        output.progress,
    ) as server:  # fmt: skip
        serving = threading.Thread(target=server.serve_forever, daemon=True, name="metrics")
        serving.start()
        output.progress(f"metrics: {server.url}")

        def show(found: Round) -> None:
            last[:] = [found]

        try:
            yield show
        finally:
            server.shutdown()
            serving.join()
