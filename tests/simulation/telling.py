"""A story in words: what the cluster did and what the journal said, in the order of time."""

from __future__ import annotations

from typing import Any

from dashboard.core.clock import parse_time
from tests.simulation.checks import problems
from tests.simulation.scenario import Story
from tests.simulation.world import BEGAN


def told(story: Story) -> str:
    """The broken promises, then every line of the model and every entry of the chain."""
    lines = [(float(line.split()[0]), line) for line in story.world.trace]
    lines += [_entry(entry) for entry in story.entries]
    mode = story.run.run.mode if story.run else "no run"
    special = f", {story.kind}" if story.kind else ""
    head = (
        f"seed {story.seed}, {mode}{special}: replay with: python -m tests.simulation {story.seed}"
    )
    broken = [f"BROKEN: {text}" for text in problems(story)] or ["every promise was kept"]
    return "\n".join([head, *broken, *(line for _, line in sorted(lines, key=lambda x: x[0]))])


def _entry(entry: Any) -> tuple[float, str]:
    at = (parse_time(entry.at) - BEGAN).total_seconds()
    rows = [
        f"{b['topic']}-{b['partition']} {b['state']} at {b['leader_log_start_offset']} of "
        f"{b['target_offset']}" + (f" ({b['error']})" if b["error"] else "")
        for b in entry.body.get("partitions", ())
        if isinstance(b, dict)
    ]
    said = entry.body.get("state") or entry.body.get("code") or ""
    return at, f"{at:8.2f}      journal: {entry.kind} {said} {'; '.join(rows)}".rstrip()
