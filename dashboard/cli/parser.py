"""Builds the argument parser: common flags after the verb, wrong usage as a named error."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from dashboard.core.errors import UsageError
from dashboard.core.visible import is_unicode

EXIT_CODES = """\
exit codes:
  0  done              1  wrong usage or settings     2  some partition is not done
  3  refused by guards 4  nothing could be read       70 internal error
  130 ended by Ctrl-C
"""
_DESCRIPTION = """\
Shows how many bytes a Kafka cluster can give back and who holds the rest;
then purges by a confirmed plan, and proves what came back."""
_EXAMPLES = """\
examples:
  lowwater doctor --bootstrap-server localhost:9092
  lowwater collect --bootstrap-server localhost:9092 --name prod --data ./data
  lowwater analyze --data ./data
  lowwater findings reclaimable --data ./data --limit 20
  lowwater plan --topic orders --to committed --out plan.json --data ./data
  lowwater preview plan.json
  lowwater apply plan.json --mode wait-all --confirm "purge orders on prod" --data ./data

Every flag stands after its verb. With --json stdout is one JSON object (one a line for
watch, policies run and orphans run); progress and logs go to stderr. Settings: lowwater.toml, see
docs/settings.md.

"""

# Flags that name files, whose names may be any bytes.
_FILES = (
    "data", "out", "plan", "offsets_out", "from_file", "client_config", "command_config",
    "offset_json_file", "export", "inventory", "listing", "log_dirs", "verdicts", "metrics",
    "quarantine_dir", "inventory_out", "restore", "delete_now", "archive", "where",
)  # fmt: skip


class Verb(NamedTuple):
    """A verb: the folder of its module, and what it does, as the list of verbs has it."""

    room: str
    summary: str


VERBS: Mapping[str, Verb] = {
    "collect": Verb("machine", "take one snapshot of a cluster"),
    "watch": Verb("machine", "collect and analyze again and again, until Ctrl-C"),
    "analyze": Verb("machine", "turn the newest snapshot into findings (Spark)"),
    "findings": Verb("findings", "one table of the newest analysis"),
    "followers": Verb("findings", "who is slow, why, and how far behind"),
    "idle": Verb("findings", "topics that nobody writes to or reads"),
    "retention": Verb("findings", "a shorter retention that fits the readers"),
    "plan": Verb("purge", "freeze what a purge would do into a file"),
    "preview": Verb("purge", "show what a plan would do; --live adds how long it would take"),
    "apply": Verb("purge", "purge what a plan says, once it is confirmed"),
    "approvals": Verb("purge", "purges that wait for a second person"),
    "archives": Verb("purge", "archives of purged records"),
    "restore": Verb("purge", "put archived records into a topic again"),
    "runs": Verb("purge", "list purge runs, newest first; check and export the journal"),
    "run": Verb("purge", "show one purge run; wait for it, pause, resume or cancel it"),
    "delete-records": Verb("purge", "Kafka's delete-records tool, with guards and a journal"),
    "demo": Verb("machine", "a real three-broker Kafka with a known workload and the dashboard"),
    "dashboard": Verb("machine", "serve the pages on loopback, until Ctrl-C"),
    "inventory": Verb("machine", "list a broker's disk, there or through one shell line"),
    "orphans": Verb("findings", "partition folders that the cluster no longer knows"),
    "metrics": Verb(
        "machine", "our own metrics for Prometheus: served on loopback, or printed once"
    ),
    "policies": Verb("policies", "purge again and again by the settings' policies"),
    "report": Verb("findings", "write the newest findings to files"),
    "triage": Verb("purge", "a disk runs full: the smallest safe purge that gives it room"),
    "doctor": Verb("machine", "check Java, folders, the cluster and our rights in it"),
}
Verbs = Any  # argparse's sub-parsers action, whose class is private


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError where argparse would print and exit 2."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        options["allow_abbrev"] = False  # a shortened --conf must never mean --confirm
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; its next step names the help of this very verb."""
        raise UsageError(f"{self.prog}: {message}", f"See: {self.prog} --help")


class _Version(argparse.Action):
    """argparse's own `version`, but looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(f"lowwater {version()}")
        parser.exit()


def new_parser() -> tuple[Parser, Verbs]:
    """The parser of `lowwater` and the place where verbs add theirs."""
    parser = Parser(prog="lowwater", description=_DESCRIPTION, epilog=_EXAMPLES + EXIT_CODES)
    add_version(parser)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, title="verbs")
    return parser, verbs


def add_version(parser: Parser) -> None:
    """The flag --version."""
    parser.add_argument("--version", action=_Version, nargs=0, help="print it and exit")


def add_summary(verbs: Verbs, name: str) -> None:
    """A verb in the list of verbs alone."""
    verbs.add_parser(name, help=VERBS[name].summary)


def add_verb(
    verbs: Verbs, name: str, *, description: str = "", examples: Sequence[str] = ()
) -> Parser:
    """A verb with the flags that all verbs have: --json, --data and --cluster."""
    summary = VERBS[name].summary
    lines = "".join(f"  {line}\n" for line in examples)
    parser: Parser = verbs.add_parser(
        name,
        help=summary,
        description=description or summary,
        epilog=(f"examples:\n{lines}\n" if lines else "") + EXIT_CODES,
    )
    common = parser.add_argument_group("common flags")
    common.add_argument("--json", action="store_true", help="one JSON object on stdout")
    common.add_argument("--data", metavar="DIR", help="folder or URL of snapshots and findings")
    common.add_argument(
        "--cluster", metavar="NAME|ID", help="which cluster, when there are several"
    )
    return parser


def add_connection(parser: Parser) -> None:
    """The flags of verbs that reach a cluster which the data folder may not know yet."""
    parser.add_argument(
        "--bootstrap-server",
        metavar="H:P[,…]",
        help="brokers to start from; without it [clusters.NAME] of the settings",
    )
    parser.add_argument(
        "--client-config", metavar="FILE", help="a Kafka client.properties (SASL, TLS)"
    )
    parser.add_argument("--name", help="what to call this cluster on screens and in plans")


def add_reached(parser: Parser) -> None:
    """The flags of verbs that reach a cluster which the data folder knows already."""
    parser.add_argument("--bootstrap-server", metavar="H:P[,…]", help="instead of the known one")
    parser.add_argument("--client-config", metavar="FILE", help="instead of the known one")


def add_metrics(parser: Parser) -> None:
    """The flag of verbs that take snapshots: where each broker's own metrics are read."""
    parser.add_argument(
        "--metrics",
        action="append",
        metavar="ID=URL_OR_FILE",
        help="a broker's Prometheus metrics (JMX exporter); may be repeated, above the settings",
    )


def add_inventory(parser: Parser) -> None:
    """The flag of verbs that put brokers' disks into a snapshot."""
    parser.add_argument(
        "--inventory",
        metavar="FILE",
        action="append",
        default=[],
        help="a broker's disk, written by `lowwater inventory`; once per broker",
    )


def parse(parser: Parser, verbs: Verbs, argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of `argv`. Raises UsageError that names the flag or verb and the nearest."""
    first = argv[0] if argv else None
    if first is None:
        raise UsageError("no verb was given", f"Write one of: {', '.join(verbs.choices)}.")
    if first.startswith("-") and first not in ("-h", "--help", "--version"):
        raise UsageError(
            f"{first} stands before the verb",
            "Flags stand after the verb, for example: lowwater collect --json.",
            code="FLAG_BEFORE_VERB",
        )
    if not first.startswith("-") and first not in verbs.choices:
        raise UsageError(
            f"there is no verb '{first}'", _nearest(first, verbs.choices), code="VERB_UNKNOWN"
        )
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        known = [flag for flag in _flags(verbs.choices[args.verb]) if flag.startswith("--")]
        raise UsageError(
            f"lowwater {args.verb} does not know '{unknown[0]}'", _nearest(unknown[0], known)
        )
    _check_texts(args)
    return args


def _check_texts(args: argparse.Namespace) -> None:
    """What names no file is sent, hashed or written as UTF-8: a shell passes any other bytes."""
    for name, value in vars(args).items():
        words = value if isinstance(value, list) else [value]
        if name not in _FILES and not all(is_unicode(w) for w in words if isinstance(w, str)):
            raise UsageError(
                f"--{name.replace('_', '-')} holds bytes that are no UTF-8 text",
                "Set the terminal to UTF-8, and write it again.",
            )


def version() -> str:
    """The installed version, or `unknown` in a tree that was never installed."""
    from importlib import metadata

    try:
        return metadata.version("lowwater")
    except metadata.PackageNotFoundError:
        return "unknown"


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return sorted(flag for action in parser._actions for flag in action.option_strings)


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word.split("=", maxsplit=1)[0], list(known), n=1)
    return (f"Did you mean {near[0]}? " if near else "") + f"Known: {', '.join(known)}."
