"""`lowwater orphans sweep`: the CLI of what sets orphans aside, puts them back and deletes them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.cli import context, output
from dashboard.cli.parser import Parser, add_connection
from dashboard.core.clock import parse_duration, utc_now
from dashboard.core.errors import JournalError, UsageError
from dashboard.core.visible import in_lines, in_quotes
from dashboard.people import people
from dashboard.settings import current

if TYPE_CHECKING:
    from dashboard.cluster.live import LiveCluster
    from dashboard.orphans.sweep.items import Item
    from dashboard.orphans.sweep.report import Report
    from dashboard.orphans.sweep.site import Options
    from dashboard.orphans.verdicts import Verdicts
    from dashboard.purge.journal.journal import Journal
    from dashboard.settings.settings import Settings

_ACTS = ("apply", "restore", "delete_now", "script", "verify")
_FLAGS = (
    "log_dirs", "bootstrap_server", "client_config", "name", "verdicts", "quarantine",
    "quarantine_dir", "confirm", *_ACTS,
)  # fmt: skip
# What is deleted sooner is one folder, by a sentence that names it.
LEAST_QUARANTINE = timedelta(hours=1)
_COLUMNS = ("log dir", "directory", "action", "state", "on disk", "reason")
EXAMPLES = (
    "lowwater orphans sweep --log-dirs /data/a,/data/b --bootstrap-server k:9092 --verdicts v.json",
    "lowwater orphans sweep --log-dirs /data/a --bootstrap-server k:9092 --verdicts v.json --apply",
    "lowwater orphans sweep --log-dirs /data/a --bootstrap-server k:9092 --restore FOLDER",
    "lowwater orphans sweep --log-dirs /data --bootstrap-server k:9092 --verdicts v.json --script",
)


def add_flags(parser: Parser) -> None:
    """The flags of `orphans sweep`."""
    group = parser.add_argument_group("sweep, on a broker's host")
    add_connection(group)  # type: ignore[arg-type]
    group.add_argument("--log-dirs", metavar="A,B", help="the broker's log.dirs")
    group.add_argument("--verdicts", metavar="FILE", help="written by `lowwater orphans --out`")
    group.add_argument("--apply", action="store_true", help="do it; without it only tell")
    group.add_argument(
        "--quarantine",
        metavar="24h",
        help="how long a folder is kept before a sweep deletes it, 1h at least",
    )
    group.add_argument(
        "--quarantine-dir",
        metavar="DIR",
        action="append",
        help="where folders are set aside, one per mount; else .lowwater-quarantine beside each "
        "log dir",
    )
    group.add_argument("--restore", metavar="FOLDER", help="put a folder in quarantine back")
    group.add_argument("--delete-now", metavar="FOLDER", help="delete one before its time")
    group.add_argument(
        "--confirm", metavar="TEXT", help="the sentence that --delete-now, or run, shows"
    )
    group.add_argument(
        "--script", action="store_true", help="print a shell script for hosts without this program"
    )
    group.add_argument("--verify", action="store_true", help="check the chain of the sweeps' logs")


def refuse_flags(args: argparse.Namespace) -> None:
    """Raises UsageError when a flag of `sweep` was given without it."""
    given = next((name for name in _FLAGS if getattr(args, name)), None)
    if given is not None:
        raise UsageError(
            f"--{given.replace('_', '-')} belongs to lowwater orphans sweep",
            "Write: lowwater orphans sweep …",
        )


def run(args: argparse.Namespace) -> int:
    """Run one act. Raises UsageError, RefusedError, LogDirError, ClusterError, JournalError."""
    _check(args)
    settings = context.read_settings(args)
    if args.verify:
        return _verify(args, settings)
    _require(args, settings)
    with _connected(args, settings) as live, switch(settings, acts=bool(_acts(args))) as stopped:
        if args.script:
            return _script(args, settings, live, stopped)
        report = _act(args, settings, live, stopped)
    output.emit(report.to_json(), _text(report), as_json=args.json)
    if report.error is not None and not args.json:
        output.emit_error(report.error, as_json=False)
    return report.exit_code


def _require(args: argparse.Namespace, settings: Settings) -> None:
    """Telling changes nothing; a script does what it says wherever it is run, by whomever."""
    who = context.actor(settings)
    if args.apply or args.delete_now or args.script:
        people.require(settings, who, people.deciding_role(settings), "sweep orphans")
    elif args.restore:
        people.require(settings, who, "operator", "put a folder back")


def _acts(args: argparse.Namespace) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in _ACTS if getattr(args, name)]


def _check(args: argparse.Namespace) -> None:
    acts = _acts(args)
    if len(acts) > 1:
        raise UsageError(f"{' and '.join(acts)} do not go together", "Give one of them.")
    check_place(args, "sweep")
    if (args.script or not acts) and not args.verdicts:
        raise UsageError(
            "lowwater orphans sweep needs --verdicts",
            "Write the file with: lowwater orphans --out FILE.",
        )
    if args.confirm and not args.delete_now:
        raise UsageError("--confirm belongs to --delete-now", "See: lowwater orphans --help")


def check_place(args: argparse.Namespace, action: str) -> None:
    """Raises UsageError without --log-dirs, or for a --quarantine that is too short."""
    if not args.log_dirs:
        raise UsageError(
            f"lowwater orphans {action} needs --log-dirs", "Write the broker's log.dirs."
        )
    if args.quarantine and parse_duration(args.quarantine) < LEAST_QUARANTINE:
        raise UsageError(
            f"--quarantine {args.quarantine} is shorter than an hour",
            "Delete one before its time with --delete-now FOLDER, which asks for a sentence.",
        )


def options(args: argparse.Namespace, settings: Settings, *, apply: bool) -> Options:
    """What flags and settings say of a sweep."""
    from dashboard.inventory.names import parse_log_dirs
    from dashboard.orphans.sweep.site import Options

    return Options(
        log_dirs=parse_log_dirs(args.log_dirs, here=str(Path.cwd())),
        quarantine_dirs=tuple(str(Path(path).absolute()) for path in args.quarantine_dir or ()),
        keep=parse_duration(args.quarantine or "24h"),
        apply=apply,
        most_share=settings.orphan_most_share,
    )


def _verdicts(args: argparse.Namespace) -> Verdicts | None:
    from dashboard.orphans.verdicts import parse

    if not args.verdicts:
        return None
    return parse(output.read_text(args.verdicts), args.verdicts, now=utc_now())


def _act(
    args: argparse.Namespace,
    settings: Settings,
    live: LiveCluster,
    stopped: Callable[[], str | None],
) -> Report:
    from dashboard.orphans.sweep.sweep import refuse_if_stopped, sweep

    if args.restore or args.delete_now:
        refuse_if_stopped(stopped)
        return _one_folder(args, settings, live, stopped)
    return sweep(
        _verdicts(args), options(args, settings, apply=args.apply), live,
        now=utc_now, progress=output.progress, stopped=stopped,
    )  # fmt: skip


def _one_folder(
    args: argparse.Namespace,
    settings: Settings,
    live: LiveCluster,
    stopped: Callable[[], str | None],
) -> Report:
    from dashboard.orphans.sweep import aside
    from dashboard.orphans.sweep.report import Report
    from dashboard.orphans.sweep.site import open_site

    chosen = options(args, settings, apply=True)
    name = args.restore or args.delete_now
    wanted = str(Path(name).absolute()) if "/" in name else name
    back = bool(args.restore)
    with open_site(chosen, live, now=utc_now, expected=None, for_restore=back) as site:
        place, item = aside.find(site, wanted)
        if not back:
            _confirm(args, item, aside.confirmation(item))
        act = aside.restore if back else aside.delete
        outcome = act(site, place, item, stopped)
        notes = []
        if outcome.state == "restored" and site.alive:
            notes.append(
                f"broker {site.broker_id} looks at the folder when it starts again; unless the "
                "cluster then assigns it the partition, it is stray as before"
            )
        return Report(site.cluster_id, site.broker_id, True, (outcome,), tuple(notes))


def _confirm(args: argparse.Namespace, item: Item, sentence: str) -> None:
    if args.confirm != sentence:
        raise UsageError(
            f"{item.directory} with {output.size(item.allocated_bytes)} is deleted for good",
            f"Repeat the sentence: --confirm {in_quotes(sentence)}.",
            code="CONFIRMATION_REQUIRED",
        )


@contextmanager
def _connected(args: argparse.Namespace, settings: Settings) -> Iterator[LiveCluster]:
    from dashboard.cluster.live import connect

    target = context.target(args, settings)
    with connect(target.client, settings.broker_timeout) as live:
        yield live


@contextmanager
def switch(settings: Settings, *, acts: bool) -> Iterator[Callable[[], str | None]]:
    """Asks whether the read-only switch is on: of the settings, or an approver's in the journal."""
    with ExitStack() as stack:
        journal = _journal(stack, settings, acts=acts)
        if acts and journal is not None and (doubt := journal.file.doubt()) is not None:
            raise doubt  # an approver's stop may be missing in it
        if acts and (journal is None or journal.tells_of_orphans_alone()):
            output.progress(
                f"no journal of purges in {settings.state_dir}: an approver who stops every purge "
                "on another host's page Audit does not stop sweeps here; read_only of the settings "
                "does"
            )

        by_settings = current.each_second(settings)

        def stopped() -> str | None:
            if (reason := by_settings()) is not None:
                return f"{reason}: no sweep changes anything"
            if journal is not None and (doubt := journal.file.doubt()) is not None:
                return doubt.message
            if journal is not None and journal.read_only():
                return "an approver switched every purge and sweep off, in the journal"
            return None

        yield stopped


def _journal(stack: ExitStack, settings: Settings, *, acts: bool) -> Journal | None:
    """The journal of this host, if there is one; whoever acts must be able to look into it."""
    try:
        if context.journal_exists(settings):
            return stack.enter_context(context.open_journal(settings))
    except JournalError as error:
        if acts:
            raise
        output.progress(
            f"{error.message}; so it is not known whether an approver stopped every sweep"
        )
    return None


def _verify(args: argparse.Namespace, settings: Settings) -> int:
    from dashboard.orphans.sweep.site import broken_error, verify

    found = verify(options(args, settings, apply=False))
    value: dict[str, Any] = {"logs": [log.to_json() for log in found]}
    text = in_lines(log.text for log in found)
    error = broken_error(found)
    if error is None:
        output.emit(value, text, as_json=args.json)
        return 0
    output.emit({**value, **error.to_json()}, text, as_json=args.json)
    if not args.json:
        output.emit_error(error, as_json=False)
    return error.exit_code


def _script(
    args: argparse.Namespace,
    settings: Settings,
    live: LiveCluster,
    stopped: Callable[[], str | None],
) -> int:
    from dashboard.orphans.sweep.script import write_script
    from dashboard.orphans.sweep.sweep import refuse_if_stopped

    refuse_if_stopped(stopped)
    verdicts = _verdicts(args)
    assert verdicts is not None
    made = write_script(verdicts, options(args, settings, apply=False), live, utc_now())
    for row in made.left_out:
        output.progress(f"left out: {row.log_dir}/{row.directory}: {row.reason}")
    output.emit(made.to_json(), in_lines(made.script.split("\n")), as_json=args.json)
    return 3 if made.left_out and not made.folders else 0


def _text(report: Report) -> str:
    from dashboard.core.words import plural

    rows = [_cells(row) for row in report.to_json()["rows"]]
    lines = [f"broker {report.broker_id} of cluster {report.cluster_id}"]
    lines.append(output.table(rows, _COLUMNS) if rows else "no folder of this broker")
    totals = report.to_json()["totals"]
    lines += [
        f"{state}: {plural(found['folders'], 'folder')}, {output.size(found['bytes'])}"
        for state, found in totals.items()
    ]
    lines += report.notes
    if not report.applied:
        lines.append("nothing was changed; --apply does it")
    return in_lines(lines)


def _cells(row: Mapping[str, Any]) -> dict[str, object]:
    reason = row["reason"] or (row["quarantined_as"] and f"in {row['quarantined_as']}")
    return {
        "log dir": row["log_dir"],
        "directory": row["directory"],
        "action": row["action"],
        "state": row["state"],
        "on disk": output.size(row["bytes"]),
        "reason": reason,
    }
