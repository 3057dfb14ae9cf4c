"""A purge run as people read it: its state, its partitions, and what came back on disk."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from dashboard.cli import output
from dashboard.cli.purge import moves_text
from dashboard.core.clock import parse_time, utc_now
from dashboard.core.visible import in_lines
from dashboard.purge.forecast import wait_outcomes
from dashboard.purge.receipt.after_text import behind_said, reverted_said, reverted_topics

_COLUMNS = (
    "topic", "partition", "target_offset", "state", "low_watermark", "leader_log_start_offset",
    "error", "followers_behind",
)  # fmt: skip


def describe(view: Mapping[str, Any]) -> str:
    """Text for the object of `apply` and `run`."""
    lines = [
        f"run {view['run_id']} ({view['mode']}): {line(view)}",
        output.table(view["partitions"], _COLUMNS),
        *after(view),
        *_messages(view["partitions"]),
        *moves_text.made(view["moves"]),
        *waits(view["receipt"]),
        receipt(view["receipt"]),
    ]
    if "error" in view:
        lines += [f"error: {view['error']['message']}", f"next: {view['error']['next']}"]
    return in_lines(lines)


def line(view: Mapping[str, Any]) -> str:
    """State and counts in one line, as progress shows it."""
    counts = ", ".join(f"{count} {state}" for state, count in view["counts"].items())
    return f"{view['state']}: {counts}" if counts else str(view["state"])


def after(view: Mapping[str, Any]) -> list[str]:
    """What came back, who is behind and how fast it closes, until when that is watched."""
    partitions = view["partitions"]
    back = reverted_said(partitions)
    lines = [f"ALERT, reverted: {said}" for said in back]
    if back:
        topics = " ".join(f"--topic {shlex.quote(topic)}" for topic in reverted_topics(partitions))
        lines.append(f"next: lowwater plan {topics} --to committed --out again.json")
    lines += behind_said(partitions)
    until = view.get("watched_until")
    if view["counts"].get("leader_done") and until:
        over = parse_time(until) <= utc_now()
        lines.append(
            f"watching ended at {until}; what is behind then is not followed"
            if over
            else f"watched until {until}; each becomes done when its replicas have arrived"
        )
    return lines


def receipt(found: Mapping[str, Any] | None) -> str:
    """Predicted against freed bytes, or that it is not known yet."""
    if found is None:
        return "receipt: not known yet"
    state = "final" if found["final"] else "so far"
    gap = f"; {found['gap']}" if found.get("gap") else ""
    return (
        f"receipt ({state}): predicted {output.size(found['predicted_bytes'])}, "
        f"freed {output.size(found['freed_bytes'])}{gap}"
    )


def waits(found: Mapping[str, Any] | None) -> list[str]:
    """How long answers took against the forecast that was made just before sending."""
    told = wait_outcomes.said((found or {}).get("waits", ()))
    return [f"waits: {told}"] if told else []


def _messages(partitions: list[Mapping[str, Any]]) -> list[str]:
    said = {p["message"] for p in partitions if p.get("message")}
    return [f"because: {message}" for message in sorted(said)]
