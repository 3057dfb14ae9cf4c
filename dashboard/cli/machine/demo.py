"""`lowwater demo up|load|break|heal|status|down`: a real local Kafka to try everything on."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from dashboard.cli import output
from dashboard.cli.parser import Verbs, add_verb
from dashboard.core import demo_faults
from dashboard.core.errors import UsageError
from dashboard.core.visible import in_lines
from dashboard.settings.settings import load

if TYPE_CHECKING:  # they load what only a demo needs
    from dashboard.demo.state import DemoState
    from dashboard.demo.verbs import Ended, Loaded, Status


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "demo",
        description="up      starts brokers, workload, watch and dashboard; Ctrl-C ends all of it\n"
        "load    writes more into a running demo\n"
        "break   breaks a follower, a disk, a broker or a group of a running demo\n"
        "heal    makes it whole again; without a name: all that is broken\n"
        "status  shows what runs, and what each topic is meant to show\n"
        "down    ends a running demo, or clears what a crash left\n\n"
        "No released Kafka broker answers a leader-only purge: DeleteRecords v3 (KIP-1343) is a\n"
        "proposal. With --leader-only-preview the demo's brokers know it. They are a preview, not\n"
        "a release: Kafka 4.3.1 of Maven Central with one file and two messages compiled anew on\n"
        "this machine, once (22 MB to fetch, up to a minute), then kept in the cache folder.\n\n"
        "Its brokers' disks are taken stock of for each snapshot: bytes are known to the segment.\n"
        "With --without-inventory they are estimated, as on clusters whose disks nobody scans.",
        examples=(
            "lowwater demo up",
            "lowwater demo up --clusters 2             # a second, small one beside it",
            "lowwater demo up --leader-only-preview    # purges may choose the mode leader-only",
            "lowwater demo status --json",
            "lowwater demo load --partitions 5000",
            "lowwater demo break group",
            "lowwater demo heal",
            "lowwater demo down",
        ),
    )
    parser.add_argument("action", choices=("up", "load", "break", "heal", "status", "down"))
    parser.add_argument(
        "what", nargs="?", choices=tuple(demo_faults.KINDS), metavar="WHAT",
        help="break, heal: one of " + ", ".join(demo_faults.KINDS),
    )  # fmt: skip
    parser.add_argument("--port", type=int, help="up: the page's port (8501, or a free one)")
    parser.add_argument(
        "--leader-only-preview",
        action="store_true",
        default=None,
        help="up: brokers that know DeleteRecords v3, compiled here; not a released Kafka",
    )
    parser.add_argument(
        "--without-inventory",
        action="store_true",
        default=None,
        help="up: bytes are estimated from sizes alone, as on most clusters",
    )
    parser.add_argument(
        "--clusters",
        type=int,
        metavar="N",
        help="up: 2 starts a second, small cluster of one broker, for the page Fleet",
    )
    parser.add_argument("--partitions", type=int, metavar="N", help="load: create N partitions")


def run(args: argparse.Namespace) -> int:
    """Run one action. Raises DemoError, UsageError."""
    from dashboard.demo import supervisor  # the Kafka client is slow to import
    from dashboard.demo import verbs as demo

    _check(args)
    settings = load()
    if args.action == "up":
        told: list[DemoState] = []

        def ready(found: DemoState) -> None:
            output.emit(demo.described(found), _ready(found), as_json=args.json)
            told.append(found)

        try:
            demo.up(
                settings,
                output.progress,
                ready,
                port=args.port,
                data=args.data,
                parts=[
                    p for p in supervisor.PARTS if p != "inventory" or not args.without_inventory
                ],
                leader_only_preview=bool(args.leader_only_preview),
                clusters=args.clusters or 1,
            )
        except KeyboardInterrupt:
            if args.json and told:  # stdout has its one object
                return output.INTERRUPTED
            raise
        return 0
    if args.action == "load":
        loaded = demo.load(settings, output.progress, partitions=args.partitions)
        value = {**loaded.counts, "seconds": loaded.seconds}
        output.emit(value, _loaded(loaded), as_json=args.json)
    elif args.action == "break":
        fault = demo.broken(settings, output.progress, args.what)
        page = demo_faults.KINDS[fault.kind].page
        output.emit(asdict(fault), f"{fault.said}; see the page {page}", as_json=args.json)
    elif args.action == "heal":
        healed = demo.healed(settings, output.progress, [args.what] if args.what else [])
        text = f"healed: {', '.join(healed)}" if healed else "nothing is broken"
        output.emit({"healed": healed}, text, as_json=args.json)
    elif args.action == "status":
        found = demo.status(settings)
        running: dict[str, object] = {"running": False, "leftovers": found.leftovers}
        if found.state is not None:
            running = {"running": True, **demo.described(found.state)}
            running["alive_brokers"] = found.alive_brokers
            running["faults"] = [asdict(fault) for fault in found.faults]
        output.emit(running, _status(found), as_json=args.json)
    else:
        ended = demo.down(settings, output.progress)
        output.emit(asdict(ended), _ended(ended), as_json=args.json)
    return 0


def _check(args: argparse.Namespace) -> None:
    """A flag of another action would be ignored in silence: refused instead."""
    ups = ("port", "leader-only-preview", "without-inventory", "clusters")
    for flag, action in (*((flag, "up") for flag in ups), ("partitions", "load")):
        if getattr(args, flag.replace("-", "_")) is not None and args.action != action:
            raise UsageError(
                f"--{flag} belongs to `lowwater demo {action}`, not to `{args.action}`",
                "See: lowwater demo --help",
            )
    if args.clusters is not None and args.clusters not in (1, 2):
        raise UsageError(f"--clusters {args.clusters}: expected 1 or 2", "Leave it out for one.")
    if args.action == "break" and args.what is None:
        raise UsageError(
            "`lowwater demo break` without what to break",
            f"Name one of {', '.join(demo_faults.KINDS)}.",
        )
    if args.what is not None and args.action not in ("break", "heal"):
        raise UsageError(
            f"`lowwater demo {args.action}` takes no {args.what}",
            "What to break stands after break, what to heal after heal.",
        )
    if args.port is not None and not 1 <= args.port <= 65_535:
        raise UsageError(
            f"--port {args.port} is no port", "Give one from 1 to 65535, or leave it out."
        )


def _ready(found: DemoState) -> str:
    return in_lines(
        (
            f"dashboard: {found.url}",
            f"brokers:   {found.bootstrap} (Kafka {_kafka(found)})",
            f"settings:  LOWWATER_SETTINGS={found.settings}",
            "Ctrl-C ends all of it and removes its folder.",
        )
    )


def _kafka(found: DemoState) -> str:
    note = ", leader-only preview: not a released broker" if found.leader_only_preview else ""
    return f"{found.kafka_version}{note}"


def _loaded(loaded: Loaded) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in loaded.counts.items())
    return f"loaded in {loaded.seconds} s: {counts}"


def _status(found: Status) -> str:
    from dashboard.demo.truth import TOPICS

    running = found.state
    if running is None:
        left = "; a crash left something: lowwater demo down clears it"
        return f"no demo runs{left}" if found.leftovers else "no demo runs"
    topics = [{**t.to_json(), "held by": t.blocking_group} for t in TOPICS]
    return in_lines(
        (
            f"{running.phase} as process {running.supervisor.pid}: Kafka {_kafka(running)}, "
            f"brokers {output.cell(found.alive_brokers)} alive",
            f"dashboard {running.url or 'not up yet'} · brokers {running.bootstrap or '-'}",
            *(f"{fault.state}: {fault.kind}: {fault.said or '-'}" for fault in found.faults),
            "",
            output.table(topics, ("topic", "expected", "held by", "declared", "story")),
        )
    )


def _ended(ended: Ended) -> str:
    if ended.stopped:
        return "the demo has ended; nothing of it is left"
    return "cleared what a crash had left" if ended.cleared else "no demo runs"
