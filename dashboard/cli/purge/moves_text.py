"""Moves of waived groups' offsets as people read them: before a purge, and after it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dashboard.purge.plan.moves import MoveRow
    from dashboard.purge.plan.preview import Preview

_MOST_LISTED = 20


def planned(view: Preview) -> list[str]:
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


def made(moves: Iterable[MoveRow]) -> list[str]:
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
