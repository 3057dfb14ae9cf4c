"""What a reader does first with a storage report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dashboard.reports.parts import named
from dashboard.reports.space import Space
from dashboard.ui import formats

_MOST_NAMED = 6


def next_steps(space: Space) -> tuple[str, ...]:
    """Sentences, the surest bytes first; empty where there is nothing to do."""
    numbers, steps = space.numbers, []
    if numbers.safe_topics:
        steps.append(
            f"Plan a purge of {_topics(numbers.safe_topics)} whose readers are declared, "
            f"{formats.size(space.declared)}: {_plan_line(numbers.safe_topics)}"
        )
    if numbers.waive_group and numbers.waive_bytes:
        group = named(numbers.waive_group).text
        steps.append(
            f"Ask whose group {group} is, and whether it may be waived: it alone holds back "
            f"{formats.size(numbers.waive_bytes)}."
        )
    if numbers.undeclared_topics and space.consumed is not None:
        more = space.consumed - (space.declared or 0)
        steps.append(
            f"Declare the readers of {_topics(numbers.undeclared_topics)}: {formats.size(more)} "
            f"wait for it ({_named(numbers.undeclared_topics)})."
        )
    system = {row.topic for row in space.topics if "system-topic" in row.guards}
    unread = [topic for topic in numbers.uncommitted_topics if topic not in system]
    if unread:
        steps.append(
            f"Find out who reads {_topics(unread)} without any committed group: what may go there "
            f"is unknown ({_named(unread)})."
        )
    return tuple(steps)


def _topics(topics: Sequence[str]) -> str:
    return formats.plural(len(topics), "topic")


def _plan_line(topics: Sequence[str]) -> str:
    if len(topics) > _MOST_NAMED:
        return "page Overview, button Plan the safest."
    flags = " ".join(f"--topic {shlex.quote(topic)}" for topic in topics)
    return f"lowwater plan {flags} --to committed --out plan.json"


def _named(topics: Sequence[str]) -> str:
    shown = ", ".join(topics[:_MOST_NAMED])
    rest = len(topics) - _MOST_NAMED
    return f"{shown} and {formats.number(rest)} more" if rest > 0 else shown
