"""What to do next about a cluster's bytes, the surest first, on Overview and in the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dashboard.core.words import plural
from dashboard.views import formats
from dashboard.views.headline import Headline
from dashboard.views.topic_rows import TopicRow

_MOST_NAMED = 6
Kind = Literal["purge", "group", "declare", "unread"]


@dataclass(frozen=True, slots=True)
class Step:
    """One sentence without its end; `names` are its topics, or its group."""

    kind: Kind
    said: str
    names: tuple[str, ...]


def next_steps(numbers: Headline, topics: Sequence[TopicRow]) -> tuple[Step, ...]:
    """Empty where there is nothing to do."""
    steps = []
    if safe := numbers.safe_topics:
        size = formats.size(numbers.declared_bytes)
        steps.append(
            Step(
                "purge",
                f"Plan a purge of {plural(len(safe), 'topic')} whose readers are declared, {size}",
                safe,
            )
        )
    if numbers.waive_group and numbers.waive_bytes:
        steps.append(
            Step(
                "group",
                f"Ask whose group {numbers.waive_group} is, and whether it may be waived: that "
                f"would free {formats.size(numbers.waive_bytes)} at once",
                (numbers.waive_group,),
            )
        )
    if (undeclared := numbers.undeclared_topics) and numbers.consumed_bytes is not None:
        more = numbers.consumed_bytes - (numbers.declared_bytes or 0)
        steps.append(
            Step(
                "declare",
                f"Declare the readers of {plural(len(undeclared), 'topic')}: {formats.size(more)} "
                f"wait for it ({_named(undeclared)})",
                undeclared,
            )
        )
    if unread := _unread(numbers, topics):
        steps.append(
            Step(
                "unread",
                f"Find out who reads {plural(len(unread), 'topic')} without any committed group: "
                f"what may go there is unknown ({_named(unread)})",
                unread,
            )
        )
    return tuple(steps)


def _unread(numbers: Headline, topics: Sequence[TopicRow]) -> tuple[str, ...]:
    system = {row.topic for row in topics if "system-topic" in row.guards}
    return tuple(topic for topic in numbers.uncommitted_topics if topic not in system)


def _named(topics: Sequence[str]) -> str:
    rest = len(topics) - _MOST_NAMED
    more = f" and {formats.number(rest)} more" if rest > 0 else ""
    return ", ".join(topics[:_MOST_NAMED]) + more
