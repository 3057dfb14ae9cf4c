"""`lowwater preview PLAN --records N`: some records below the targets, read live, kept nowhere."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.cli import context, output
from dashboard.core.errors import ClusterError, UsageError
from dashboard.core.visible import in_lines, in_paragraphs
from dashboard.core.words import plural
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import FORMS, MOST_SAMPLED

if TYPE_CHECKING:
    from dashboard.domain.records import Form, LookedAt, Record
    from dashboard.purge.plan.plan import Plan


def add_flags(parser: argparse.ArgumentParser) -> None:
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


def check(args: argparse.Namespace) -> None:
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


def read(
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


def error_of(found: Sequence[LookedAt]) -> ClusterError | None:
    """What the command ends with where no partition could be read at all."""
    if not found or any(row.error is None or row.first is not None for row in found):
        return None
    first = found[0]
    return ClusterError(
        f"no record could be read: {first.topic}-{first.partition}: {first.why or first.error}",
        "Each partition says why; the preview itself needs no broker.",
        code="RECORDS_UNREAD",
    )


def describe(found: Sequence[LookedAt], plan: Plan, form: Form | None) -> str:
    """Text for `looked_at`: a table a partition."""
    from dashboard.purge.evidence.look import worth

    rest = len(worth(plan)) - len(found)
    left = [f"{plural(rest, 'more partition')} not looked at: name them with --of"] if rest else []
    shown = [_partition_text(row, form) for row in found]
    return in_paragraphs([*shown, *left] or ["no record lies below the targets"])


def _partition_text(found: LookedAt, form: Form | None) -> str:
    from dashboard.views import records

    cells = [{"record": place, **_cells(record, form)} for place, record in records.places(found)]
    heading = records.heading(found)
    if not cells:
        return in_lines([heading])
    return in_lines([heading, output.table(cells, tuple(cells[0]))])


def _cells(record: Record, form: Form | None) -> dict[str, object]:
    from dashboard.views import records

    return {
        "offset": record.offset,
        "time": records.time_line(record),
        "size": output.size(record.size_bytes),
        "key": records.line(record.key),
        "headers": records.headers_line(record.headers),
        "value": records.line(record.value, form or "text", records.MOST_CHARACTERS),
    }
