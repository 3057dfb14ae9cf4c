"""`lowwater preview PLAN`: what a plan would do; --live: how long it takes; --records: of what."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.cli.parser import Verbs, add_reached, add_verb
from dashboard.core.clock import format_time, utc_now
from dashboard.core.errors import ClusterError, UsageError
from dashboard.core.visible import in_lines, in_paragraphs, in_quotes
from dashboard.core.words import plural
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import FORMS, MOST_SAMPLED
from dashboard.purge.plan import words

if TYPE_CHECKING:
    from dashboard.domain.records import Form, LookedAt, Record
    from dashboard.purge.forecast.forecast import Forecast
    from dashboard.purge.plan.guards import Override, Waiver
    from dashboard.purge.plan.moves import MoveRow
    from dashboard.purge.plan.plan import Plan, PlannedPartition
    from dashboard.purge.plan.preview import GroupLoss, Preview, Totals


def add_parser(verbs: Verbs) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "preview",
        description="Shows what a plan would do: targets, records, bytes, guards, who would lose\n"
        "what, and the sentence that apply wants confirmed. Reads the file alone; with --live it\n"
        "asks the brokers which replicas would hold a purge up, and says for each mode how long\n"
        "it would take and what it risks; with --records it reads some of the records that would\n"
        "go. Changes nothing.",
        examples=(
            "lowwater preview plan.json",
            "lowwater preview plan.json --live",
            "lowwater preview plan.json --records 10 --of orders-0 --values json",
            "lowwater preview plan.json --json",
        ),
    )
    parser.add_argument("plan", metavar="PLAN", help="a file written by lowwater plan")
    parser.add_argument(
        "--live", action="store_true", help="ask the brokers who would hold the purge up"
    )
    _record_flags(parser)
    add_reached(parser)


def run(args: argparse.Namespace) -> int:
    """Print the preview. Raises PlanError, RefusedError PLAN_EDITED; live also ClusterError.

    4 where records were asked for and no partition's could be read.
    """
    from dashboard.purge.plan.plan import Plan
    from dashboard.purge.plan.preview import Pace, preview

    _check_records(args)
    plan = Plan.from_json_text(output.read_text(args.plan), args.plan)
    pace = Pace()
    if plan.archive is not None:
        from dashboard.purge.evidence.estimates import archive_pace

        pace = archive_pace(context.read_settings(args), plan)
    view = preview(plan, utc_now(), pace)
    body, text = view.to_json(), describe(view)
    if args.live:
        from dashboard.purge.forecast.text import to_json

        found = _forecast(args, plan)
        body["forecast"], text = to_json(found), in_lines([text, describe_forecast(found)])
    if args.records is not None:
        return _with_records(args, plan, body, text)
    output.emit(body, text, as_json=args.json)
    return 0


def _with_records(args: argparse.Namespace, plan: Plan, body: dict[str, object], text: str) -> int:
    from dashboard.views.records import to_json

    found = _read_records(args, plan, context.overrides_of(args))
    body["looked_at"] = [to_json(row, args.values) for row in found]
    error = _records_unread(found)
    text = in_paragraphs([_describe_records(found, plan, args.values), text])
    output.emit({**body, **(error.to_json() if error else {})}, text, as_json=args.json)
    if error is None:
        return 0
    if not args.json:
        output.emit_error(error, as_json=False)
    return error.exit_code


def _forecast(args: argparse.Namespace, plan: Plan) -> Forecast:
    from dashboard.purge.forecast.forecast import forecast

    overrides = context.overrides_of(args)
    settings = context.read_settings(args)
    context.open_store(settings.data)
    output.progress("reading replicas, log dirs and versions …")
    cluster = args.cluster or plan.cluster_id
    return forecast(settings, settings.data, cluster, plan, client_overrides=overrides)


# A live forecast as people read it under a preview: what holds a purge up, and each mode.


def describe_forecast(found: Forecast) -> str:
    """Text for the `forecast` object of `preview --live`."""
    from dashboard.purge.forecast.text import advised, details, headline, modes

    lines = [f"read live in {found.seconds:.1f} s: {headline(found)}"]
    lines += [f"- {detail}" for detail in details(found)]
    lines += [f"advice: {said}" for said in advised(found)]
    lines += [f"{m.mode}: {m.predicted} {m.risk}" for m in modes(found)]
    return in_lines(lines)


# A plan as people read it before they confirm: partitions, totals, who would lose what.

_COLUMNS = (
    "topic", "partition", "log_start_offset", "target_offset", "high_watermark", "records",
    "bytes_at_once", "method", "guards",
)  # fmt: skip


def describe(view: Preview) -> str:
    """Text for the object of `preview`: the last line is the sentence that --confirm repeats."""
    plan = view.plan
    parts = [
        f"plan {plan.plan_id} on {plan.called}, target {plan.target}",
        output.table([_cells(p) for p in plan.partitions], _COLUMNS),
        _totals(view.totals),
        *words.capped(plan.partitions),
        *words.tiers(plan.partitions),
        *_reasons(plan.partitions),
        *words.coverage(view.coverage),
        *words.unseen_readers(plan.unseen_readers),
        *(_loss(group) for group in view.groups if group.loss_if_latest),
        *words.declared(plan.declarations),
        *(_waived(w) for w in plan.waivers),
        *planned_moves(view),
        *(f"lifted {_lifted(o)} by {o.by}: {o.reason}" for o in plan.overrides),
        *words.rights_missing(plan.rights_missing),
        *words.to_keep(view.archive),
        f"sha256 {plan.sha256}",
        f"expires {format_time(plan.expires_at)}"
        + (": EXPIRED, plan again" if view.expired else ""),
    ]
    if plan.free_partitions:
        parts.append(f"confirm with: --confirm {in_quotes(plan.confirmation)}")
    return in_lines(parts)


def _cells(p: PlannedPartition) -> dict[str, object]:
    from dashboard.purge.plan.preview import row

    at_once = p.estimate.bytes_at_once if p.estimate else None
    return {**row(p), "bytes_at_once": output.size(at_once)}


def _totals(totals: Totals) -> str:
    unmeasured = totals.unmeasured_partitions
    return (
        f"{totals.free_partitions} of {totals.partitions} partitions are free: "
        f"at most {totals.records} records, {words.freed(totals)}"
        + "".join(f" · {count} {method}" for method, count in totals.methods.items())
        + (f" ({unmeasured} partitions not measured)" if unmeasured else "")
    )


def _reasons(partitions: Iterable[PlannedPartition]) -> list[str]:
    from dashboard.purge.plan.preview import guards_counted

    return [
        f"guard {guard.name} ({count} partitions): {guard.reason} {guard.lift}"
        for guard, count in guards_counted(partitions)
    ]


def _waived(waiver: Waiver) -> str:
    said = f"waived {waiver.group_id} by {waiver.by}: {waiver.reason}"
    return f"{said} (ALIVE: it has members now, and goes on reading)" if waiver.alive else said


def _loss(group: GroupLoss) -> str:
    return (
        f"group {group.group_id} would lose {group.loss_if_earliest} records if it resets "
        f"to earliest, {group.loss_if_latest} if it resets to latest"
    )


def _lifted(override: Override) -> str:
    return f"{override.name}:{override.group_id}" if override.group_id else override.name


# Moves of waived groups' offsets as people read them: before a purge, and after it.

_MOST_LISTED = 20


def planned_moves(view: Preview) -> list[str]:
    """Which group moves from where to where, on how many partitions; and which could move."""
    lines = [_planned(list(found)) for _, found in groupby(view.moves, key=_place)]
    moving = {move.group_id for move in view.moves}
    losing = {g.group_id for g in view.groups if g.loss_if_latest}
    for waiver in view.plan.waivers:
        group_id = waiver.group_id
        if waiver.move and group_id not in moving:
            lines.append(
                f"group {group_id} is not moved: Kafka holds none of its offsets below a target"
            )
        elif group_id in losing and not waiver.move:
            lines.append(
                f"group {group_id} may be moved to the targets while it has no members, so that "
                "it resumes there: plan again with --move-waived"
            )
    return lines


def made_moves(moves: Iterable[MoveRow]) -> list[str]:
    """What became of each move of a run: by group and topic, then every one that was not made."""
    found = list(moves)
    lines = []
    for (group_id, topic), members in groupby(found, key=_place):
        states: dict[str, int] = {}
        for move in members:
            state = _outcome(move)
            states[state] = states.get(state, 0) + 1
        counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        lines.append(f"offsets of group {group_id} on {topic}: {counts}")
    short = [move for move in found if move.error]
    lines += [
        f"group {m.group_id} on {m.topic}-{m.partition} is {m.state}: "
        f"{m.error}{f': {m.message}' if m.message else ''}"
        for m in short[:_MOST_LISTED]
    ]
    return lines + _rest(len(short))


def _outcome(move: MoveRow) -> str:
    """Its state; an offset that stood where it was to be, or further, is not moved by us."""
    return "there already" if move.state == "moved" and not move.attempts else move.state


def _planned(moves: list[MoveRow]) -> str:
    steps = [f"{m.partition}: {m.from_offset} → {m.to_offset}" for m in moves]
    first = moves[0]
    return (
        f"moves group {first.group_id} on {first.topic}, {len(moves)} partitions once their "
        f"records are gone: {', '.join([*steps[:_MOST_LISTED], *_rest(len(steps))])}"
    )


def _rest(count: int) -> list[str]:
    more = count - _MOST_LISTED
    return [f"and {more} more (--json lists all)"] if more > 0 else []


def _place(move: MoveRow) -> tuple[str, str]:
    return move.group_id, move.topic


def _record_flags(parser: argparse.ArgumentParser) -> None:
    """--records, and what narrows it down."""
    parser.add_argument(
        "--records",
        metavar="N",
        help="read the first, the last and N sampled records below the targets (READ): offset, "
        "time, key, size, headers; kept nowhere",
    )
    parser.add_argument(
        "--of",
        action="append",
        metavar="TOPIC-P",
        help="with --records: a partition such as orders-0, instead of the eight with most records",
    )
    parser.add_argument(
        "--values", choices=FORMS, help="with --records: show values too, cut, in this form"
    )


def _check_records(args: argparse.Namespace) -> None:
    """Raises UsageError before anything is read."""
    if args.records is None:
        if args.of or args.values:
            raise UsageError("--of and --values go with --records", "Add --records 10.")
        return
    if not args.records.isascii() or not args.records.isdigit() or len(args.records) > 3:
        raise _no_number(args.records)
    if int(args.records) > MOST_SAMPLED:
        raise _no_number(args.records)


def _no_number(text: str) -> UsageError:
    return UsageError(
        f"--records '{text[:40]}' is no number from 0 to {MOST_SAMPLED}",
        "Write how many records to sample between the first and the last one, such as 10.",
    )


def _read_records(
    args: argparse.Namespace, plan: Plan, overrides: Mapping[str, str]
) -> tuple[LookedAt, ...]:
    """What `look` finds of the plan. Raises as it does, and UsageError."""
    from dashboard.purge.evidence.look import LookRequest, look, planned

    targets = planned(plan, [_partition(text) for text in args.of or ()])
    settings = context.read_settings(args)
    context.open_store(settings.data)
    output.progress("reading records …")
    ids = {topic: plan.topic_ids[topic] for topic in {key.topic for key in targets}}
    asked = LookRequest(targets, ids, int(args.records), args.values is not None)
    return look(
        settings, settings.data, args.cluster or plan.cluster_id, asked,
        context.actor(settings), client_overrides=overrides,
    )  # fmt: skip


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    if not topic or not number.isascii() or not number.isdigit() or len(number) > 10:
        raise UsageError(
            f"--of '{text[:300]}' names no partition", "Write TOPIC-N, such as orders-0."
        )
    return TopicPartition(topic, int(number))


def _records_unread(found: Sequence[LookedAt]) -> ClusterError | None:
    """What the command ends with where no partition could be read at all."""
    if not found or any(row.error is None or row.first is not None for row in found):
        return None
    first = found[0]
    return ClusterError(
        f"no record could be read: {first.topic}-{first.partition}: {first.why or first.error}",
        "Each partition says why; the preview itself needs no broker.",
        code="RECORDS_UNREAD",
    )


def _describe_records(found: Sequence[LookedAt], plan: Plan, form: Form | None) -> str:
    """Text for `looked_at`: a table a partition."""
    from dashboard.purge.evidence.look import worth

    rest = len(worth(plan)) - len(found)
    left = [f"{plural(rest, 'more partition')} not looked at: name them with --of"] if rest else []
    shown = [_partition_text(row, form) for row in found]
    return in_paragraphs([*shown, *left] or ["no record lies below the targets"])


def _partition_text(found: LookedAt, form: Form | None) -> str:
    from dashboard.views import records

    cells = [
        {"record": place, **_record_cells(record, form)} for place, record in records.places(found)
    ]
    heading = records.heading(found)
    if not cells:
        return in_lines([heading])
    return in_lines([heading, output.table(cells, tuple(cells[0]))])


def _record_cells(record: Record, form: Form | None) -> dict[str, object]:
    from dashboard.views import records

    return {
        "offset": record.offset,
        "time": records.time_line(record),
        "size": output.size(record.size_bytes),
        "key": records.line(record.key),
        "headers": records.headers_line(record.headers),
        "value": records.line(record.value, form or "text", records.MOST_CHARACTERS),
    }
