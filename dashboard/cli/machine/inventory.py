"""`lowwater inventory scan|command|read`: a broker's disk into one file, here or from a listing."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dashboard.cli import output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core.canonical import written
from dashboard.core.clock import utc_now
from dashboard.core.errors import InventoryError, UsageError
from dashboard.core.visible import in_lines

if TYPE_CHECKING:  # pyarrow
    from dashboard.inventory.loading import Summary

_NEEDS: dict[str, tuple[str, ...]] = {
    "scan": ("log_dirs", "broker", "out"),
    "command": ("log_dirs",),
    "read": ("listing", "broker", "out"),
}
_DESCRIPTION = """\
Lists a broker's disk: every segment, folder and checkpoint entry of its log dirs.
Opens to read, follows no link, writes nothing but --out.

scan     on the broker's host: walks the log dirs
command  prints one shell line for a host without this program. It needs GNU find and
         any grep; busybox's find has no -printf: there, install findutils, or scan
read     reads the output of that line (- is stdin). A listing knows a segment's mtime
         only; scan also reads its newest record time from the time index

Give FILE to `lowwater collect --inventory FILE`."""


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "inventory",
        description=_DESCRIPTION,
        examples=(
            "lowwater inventory scan --log-dirs /data/a,/data/b --broker 3 --out 3.inventory",
            "lowwater inventory command --log-dirs /data/a | ssh broker-3 sh > 3.listing",
            "lowwater inventory command --log-dirs /data | kubectl exec -i k-3 -- sh > 3.listing",
            "lowwater inventory read 3.listing --broker 3 --out 3.inventory",
        ),
    )
    parser.add_argument("action", choices=tuple(_NEEDS))
    parser.add_argument("listing", nargs="?", metavar="LISTING", help="read: the line's output")
    parser.add_argument("--log-dirs", metavar="A,B", help="scan, command: the broker's log.dirs")
    parser.add_argument("--broker", type=int, metavar="N", help="scan, read: the broker's id")
    parser.add_argument("--out", metavar="FILE", help="scan, read: the inventory to write")


def run(args: argparse.Namespace) -> int:
    """Run one action. Raises UsageError, InventoryError, LogDirError."""
    _check(args)
    if args.action == "command":
        _print_command(args)
        return 0
    begun = time.monotonic()
    output.check_writable(args.out)
    found = _scan(args) if args.action == "scan" else _read(args)
    seconds = round(time.monotonic() - begun, 3)
    value = {"file": args.out, **written(found), "seconds": seconds}
    output.emit(value, _text(found, args.out, seconds), as_json=args.json)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Each action has its flags; one of another action would be ignored in silence: refused."""
    needed = _NEEDS[args.action]
    for name in ("listing", "log_dirs", "broker", "out"):
        word = "LISTING" if name == "listing" else f"--{name.replace('_', '-')}"
        given = getattr(args, name) is not None
        if given != (name in needed):
            problem = "does not take" if given else "needs"
            raise UsageError(
                f"lowwater inventory {args.action} {problem} {word}",
                "See: lowwater inventory --help",
            )
    if args.broker is not None and not 0 <= args.broker < 2**31:
        raise UsageError(f"--broker {args.broker} is no broker id", "Give its node.id.")


def _print_command(args: argparse.Namespace) -> None:
    from dashboard.inventory.listing import shell_line
    from dashboard.inventory.names import parse_log_dirs

    line = shell_line(parse_log_dirs(args.log_dirs))
    output.emit({"command": line}, line, as_json=args.json)


def _scan(args: argparse.Namespace) -> Summary:
    from dashboard.inventory.names import parse_log_dirs

    log_dirs = parse_log_dirs(args.log_dirs, here=str(Path.cwd()))
    refuse_inside(args.out, log_dirs)
    return scan_to(args.out, args.broker, log_dirs)


def scan_to(out: str, broker: int, log_dirs: Sequence[str]) -> Summary:
    """Walk the log dirs into one file; what it holds. Raises InventoryError, LogDirError."""
    from dashboard.inventory import scan
    from dashboard.inventory.recorder import Recorder

    with Recorder(out, broker, log_dirs, newest_from=scan.NEWEST_FROM) as recorder:
        scan.scan(log_dirs, recorder, now=utc_now)
        return recorder.finish()


def refuse_inside(out: str, log_dirs: Sequence[str]) -> None:
    """Nothing is ever written where Kafka keeps its logs."""
    for log_dir in log_dirs:
        if Path(out).resolve().is_relative_to(Path(log_dir).resolve()):
            raise UsageError(
                f"--out {out} lies inside the log dir {log_dir}",
                "Name a file outside every log dir.",
                code="OUT_IN_LOG_DIR",
            )


def _read(args: argparse.Namespace) -> Summary:
    from dashboard.inventory import listing
    from dashboard.inventory.recorder import Recorder

    with _opened(args.listing) as file:
        lines = listing.Lines(file)
        log_dirs = listing.read_header(lines)
        with Recorder(args.out, args.broker, log_dirs, newest_from=listing.NEWEST_FROM) as recorder:
            listing.read(lines, log_dirs, recorder)
            return recorder.finish()


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    if path == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(path).open("rb") as file:
            yield file
    except OSError as error:
        raise InventoryError(
            f"{path} cannot be read: {error.strerror or error}",
            "Check the path and its rights.",
            code="FILE_UNREADABLE",
        ) from error


def _text(found: Summary, file: str, seconds: float) -> str:
    rows = [
        {
            "log dir": each.log_dir,
            "folders": each.folders,
            "segments": each.segments,
            "logs": output.size(each.log_bytes),
            "indexes": output.size(each.index_bytes),
            "on disk": output.size(each.allocated_bytes),
            "checkpoint entries": each.checkpoints,
        }
        for each in found.log_dirs
    ]
    more = found.gaps_total - len(found.gaps)
    lines = [
        f"broker {found.broker_id} of cluster {found.cluster_id}, "
        f"seen at {output.cell(found.scanned_at)}, ages by {found.newest_from}",
        output.table(rows, tuple(rows[0])),
        *(f"gap: {gap.log_dir} {gap.path}: {gap.reason}" for gap in found.gaps),
        *([f"and {more} gaps more"] if more else []),
        f"written to {file} in {seconds:.1f} s",
    ]
    return in_lines(lines)
