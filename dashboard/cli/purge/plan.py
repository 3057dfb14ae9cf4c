"""`lowwater plan`: freezes targets, judges guards on the live cluster, writes a plan file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_reached, add_verb
from dashboard.cli.purge.preview import describe
from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError, UsageError
from dashboard.core.visible import in_lines
from dashboard.people import people
from dashboard.settings.archive import chosen
from dashboard.settings.settings import Settings

if TYPE_CHECKING:
    from dashboard.purge.plan.plan import Plan
    from dashboard.purge.plan.preview import Pace
    from dashboard.purge.plan.targets import Target


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "plan",
        description="Reads offsets, groups and configs of the live cluster, freezes a target per\n"
        "partition and writes a plan. Changes nothing. Partitions that a guard blocks stay in the\n"
        "plan and are never sent; with none free the exit code is 3. Records below the target go,\n"
        "the record at the target stays.",
        examples=(
            "lowwater plan --topic orders --to committed --out plan.json",
            "lowwater plan --topic orders --to timestamp:2026-03-01T04:00:00Z --out plan.json",
            "lowwater plan --topic orders --to keep:24h --out plan.json   # or keep:10GiB",
            'lowwater plan --topic orders --to committed --waive "old-app=gone since May" \\',
            '    --override "readers-undeclared=asked every team" --out plan.json',
            'lowwater plan --topic orders --to committed --waive "old-app=gone since May" \\',
            "    --move-waived --out plan.json   # its offsets follow to the targets",
            "lowwater plan --topic orders --to keep:24h --archive s3://bucket/kept --out plan.json",
            "lowwater plan --from-file offsets.json --out plan.json   # of Kafka's tool",
        ),
    )
    parser.add_argument("--topic", action="append", metavar="T", help="may be repeated")
    parser.add_argument(
        "--to",
        metavar="TARGET",
        help="committed, timestamp:ISO8601Z, keep:24h, keep:10GiB, retention, offset:N or "
        "high-watermark",
    )
    parser.add_argument("--from-file", metavar="FILE", help="offsets JSON, instead of the above")
    parser.add_argument(
        "--groups", metavar="G,…", help="with committed: only these groups decide the target"
    )
    parser.add_argument(
        "--waive",
        action="append",
        metavar="G=reason",
        help='a group that no longer counts; "G" in double quotes where it holds a =',
    )
    parser.add_argument(
        "--move-waived",
        action="store_true",
        help="after the purge, move the offsets of the waived groups to the targets",
    )
    parser.add_argument(
        "--override",
        action="append",
        metavar="NAME=reason",
        help="lift a guard, or NAME:GROUP=reason for one group",
    )
    parser.add_argument(
        "--archive",
        nargs="?",
        const=True,
        metavar="URL",
        help="keep the records there, proved, before any is deleted: a folder or s3://…; without "
        "URL that of [archive] in the settings",
    )
    parser.add_argument(
        "--sample",
        action="store_true",
        help="measure record sizes by reading a few batches of the largest partitions (READ)",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="where the plan is written")
    parser.add_argument(
        "--offsets-out", metavar="FILE", help="the free targets for Kafka's delete-records tool too"
    )
    add_reached(parser)


def run(args: argparse.Namespace) -> int:
    """Write the plan and print its preview. Raises as `drafts.draft` does; 3 with none free.

    READ_ONLY where targets for Kafka's tool are asked for and every purge is switched off.
    """
    if args.offsets_out:
        output.check_writable(args.offsets_out)
        output.check_apart("--offsets-out", args.offsets_out, "--from-file", args.from_file)
        output.check_apart("--offsets-out", args.offsets_out, "--out", args.out)
        output.forget(args.offsets_out)  # targets of an earlier plan, which may be refused by now
    settings = context.read_settings(args)
    if args.waive or args.override:
        who = context.actor(settings)
        people.require(settings, who, "operator", "waive groups or lift guards")
    output.check_writable(args.out)
    if args.offsets_out and args.archive:
        raise UsageError(
            "Kafka's tool keeps nothing: --offsets-out does not go with --archive",
            "Leave one of them out.",
        )
    if args.offsets_out:
        _refuse_stopped(settings)
    target = _target(args)
    plan = _draft(args, settings, target, context.overrides_of(args))
    output.write_text(args.out, plan.to_json_text())
    if args.offsets_out and plan.free_partitions:
        output.write_text(args.offsets_out, plan.offsets_json())
    from dashboard.purge.evidence.estimates import archive_pace

    return _show(plan, args, archive_pace(settings, plan))


def _refuse_stopped(settings: Settings) -> None:
    """READ_ONLY while every purge is switched off: Kafka's tool knows no switch."""
    from dashboard.purge.jobs import queue_refusals  # slow to import; other plans need none of it

    with context.open_journal(settings) as journal:
        queue_refusals.read_only(settings, journal)


def _target(args: argparse.Namespace) -> Target:
    from dashboard.purge.plan.targets import parse_target, read_offsets_json

    if args.from_file:
        if args.topic or args.to or args.groups:
            raise UsageError(
                "--from-file names topics and offsets itself",
                "Leave --topic, --to and --groups out, or leave --from-file out.",
            )
        return read_offsets_json(output.read_text(args.from_file), args.from_file)
    if not args.topic or not args.to:
        raise UsageError(
            "a plan needs --topic and --to, or --from-file", "See: lowwater plan --help"
        )
    return parse_target(args.to)


def _draft(
    args: argparse.Namespace, settings: Settings, target: Target, overrides: Mapping[str, str]
) -> Plan:
    from dashboard.cli.purge.lift_flags import known_groups, parse_lift, parse_waive
    from dashboard.purge.plan.drafts import PlanRequest, draft

    known = known_groups(args, settings)
    request = PlanRequest(
        topics=tuple(args.topic or ()),
        target=target,
        groups=tuple(g.strip() for g in (args.groups or "").split(",") if g.strip()),
        waive=tuple(parse_waive(text, known) for text in args.waive or ()),
        override=tuple(parse_lift(text, known) for text in args.override or ()),
        move_waived=args.move_waived,
        sample=args.sample,
        archive=chosen(settings.archive, args.archive),
        by=settings.operator,
    )
    context.open_store(settings.data)
    output.progress("reading offsets, groups and configs …")
    return draft(settings, settings.data, args.cluster, request, client_overrides=overrides)


def _show(plan: Plan, args: argparse.Namespace, pace: Pace) -> int:
    from dashboard.purge.plan.preview import preview

    shown = preview(plan, utc_now(), pace)
    view = {**shown.to_json(), "out": args.out}
    text = in_lines([describe(shown), f"written to {args.out}"])
    if plan.free_partitions:
        if args.offsets_out:
            text = in_lines([text, f"targets for Kafka's tool written to {args.offsets_out}"])
        output.emit(view, text, as_json=args.json)
        return 0
    error = RefusedError(
        f"guards block all {len(plan.partitions)} partitions",
        "Each guard says what lifts it; the plan file holds them too.",
        code="NOTHING_FREE",
    )
    output.emit({**view, **error.to_json()}, text, as_json=args.json)
    if not args.json:
        output.emit_error(error, as_json=False)
    return error.exit_code
