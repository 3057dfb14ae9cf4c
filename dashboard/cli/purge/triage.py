"""`lowwater triage`: so many bytes on a broker within a time, as the smallest safe plan."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_reached, add_verb
from dashboard.core.clock import format_time, parse_duration
from dashboard.core.errors import RefusedError, UsageError
from dashboard.core.visible import in_lines, in_quotes
from dashboard.core.words import parse_size
from dashboard.people import people
from dashboard.settings.settings import Settings

if TYPE_CHECKING:
    from dashboard.triage.answer import Triage
    from dashboard.triage.selection import Question

_MOST_ROWS = 40


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "triage",
        description="Chooses the fewest partitions with a replica on that disk that free the\n"
        "bytes there, the safest first, and writes an ordinary plan of them from live reads.\n"
        "Says when the bytes have left at the latest, who would hold the purge up, and what\n"
        "to do where no purge helps. Changes nothing. 0: surely enough, in time; 3: only a\n"
        "part, not surely, too late, or nothing; the plan of the part is written all the same.",
        examples=(
            "lowwater triage --broker 7 --need 40GiB --within 30m --out plan.json",
            "lowwater triage --broker 7 --log-dir /data/d2 --need 40GiB --within 30m \\",
            '    --accept-undeclared "asked every team" --out plan.json',
            "lowwater triage --broker 7 --need 40GiB --within 30m \\",
            '    --waive "old-app=gone since May" --out plan.json',
        ),
    )
    parser.add_argument("--broker", required=True, type=int, metavar="ID", help="whose disk")
    parser.add_argument("--need", required=True, metavar="SIZE", help="40GiB, 500MiB, …")
    parser.add_argument("--within", required=True, metavar="TIME", help="30m, 2h, …")
    parser.add_argument("--log-dir", metavar="DIR", help="one of several; else the fullest")
    parser.add_argument(
        "--accept-undeclared",
        metavar="WHY",
        help="take topics whose readers nobody declared too, for this reason",
    )
    parser.add_argument(
        "--waive",
        action="append",
        metavar="G=reason",
        help="a dead group that no longer counts where its bytes are needed",
    )
    parser.add_argument("--out", required=True, metavar="FILE", help="where the plan is written")
    add_reached(parser)


def run(args: argparse.Namespace) -> int:
    """Write the plan and say what it gives. Raises as `triage.answer.triage` does."""
    settings = context.read_settings(args)
    if args.waive or args.accept_undeclared:
        who = context.actor(settings)
        people.require(settings, who, "operator", "waive groups or lift guards")
    output.check_writable(args.out)
    answer = _triage(args, settings, _question(args, settings))
    if answer.plan is not None:
        output.write_text(args.out, answer.plan.to_json_text())
    return _show(answer, args)


def _question(args: argparse.Namespace, settings: Settings) -> Question:
    from dashboard.cli.purge.lift_flags import known_groups, parse_waive
    from dashboard.triage.selection import Question

    known = known_groups(args, settings)
    need = parse_size(args.need)
    if need is None:
        raise UsageError(f"--need {args.need} is no size", "Write bytes such as 40GiB or 500MiB.")
    return Question(
        args.broker,
        need,
        parse_duration(args.within),
        args.log_dir,
        args.accept_undeclared,
        tuple(parse_waive(text, known) for text in args.waive or ()),
        settings.operator,
    )


def _triage(args: argparse.Namespace, settings: Settings, question: Question) -> Triage:
    from dashboard.triage.answer import triage

    overrides = context.overrides_of(args)
    context.open_store(settings.data)
    output.progress("reading the disk, offsets and groups …")
    return triage(settings, settings.data, args.cluster, question, client_overrides=overrides)


def _show(answer: Triage, args: argparse.Namespace) -> int:
    from dashboard.triage.words import triage_json

    view = {**triage_json(answer), "plan": _plan(answer, args.out)}
    text = _text(answer, args.out)
    if answer.met:
        output.emit(view, text, as_json=args.json)
        return 0
    error = _short_of(answer)
    output.emit({**view, **error.to_json()}, text, as_json=args.json)
    if not args.json:
        output.emit_error(error, as_json=False)
    return error.exit_code


def _plan(answer: Triage, out: str) -> dict[str, object] | None:
    plan = answer.plan
    if plan is None:
        return None
    return {
        "plan_id": plan.plan_id,
        "sha256": plan.sha256,
        "confirmation": plan.confirmation,
        "expires_at": plan.expires_at,
        "free_partitions": len(plan.free_partitions),
        "out": out,
    }


def _text(answer: Triage, out: str) -> str:
    from dashboard.triage.selection import instead
    from dashboard.triage.words import sentences

    rows = sorted(answer.chosen, key=lambda c: (c.tier, -c.here.low))
    sized = [
        {
            "topic": c.key.topic,
            "partition": c.key.partition,
            "tier": c.tier,
            "bytes_low": output.size(c.here.low),
            "bytes_likely": output.size(c.here.likely),
            "bytes_high": output.size(c.here.high),
        }
        for c in rows[:_MOST_ROWS]
    ]
    parts = [*sentences(answer), *(f"- {step}" for step in instead(answer.disk))]
    if sized:
        parts.append(output.table(sized, tuple(sized[0])))
    if len(rows) > _MOST_ROWS:
        parts.append(f"{_MOST_ROWS} of {len(rows)} partitions; --json and the plan have all")
    if answer.plan is not None:
        parts += [
            f"written to {out}, by the snapshot of {format_time(answer.age.taken_at)}",
            f"next: lowwater preview {shlex.quote(out)}",
            f"then: lowwater apply {shlex.quote(out)} --mode {answer.mode} "
            f"--confirm {in_quotes(answer.plan.confirmation)}",
        ]
    return in_lines(parts)


def _short_of(answer: Triage) -> RefusedError:
    """Why the exit code is 3, and what to do about it."""
    where = f"broker {answer.question.broker_id}, {answer.disk.log_dir}"
    if answer.disk.obstacle:
        return RefusedError(
            f"{where}: no purge frees anything there",
            "Follow the steps above; the first ones lose nothing.",
            code=answer.disk.obstacle,
        )
    if answer.plan is None:
        return RefusedError(
            f"{where}: nothing can be purged safely",
            "What is said above may be allowed by its flag; else extend the disk or move replicas.",
            code="NOTHING_SAFE",
        )
    if answer.sure != "sure":
        return RefusedError(
            f"{where}: the need is not surely met",
            "The plan of what can be had is written; see above what more could be allowed.",
            code="NEED_NOT_MET",
        )
    return RefusedError(
        f"{where}: enough, but not surely in time",
        "The plan is written; see above what makes it sooner.",
        code="NOT_IN_TIME",
    )
