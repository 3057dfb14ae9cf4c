"""A plan as people read it before they confirm: partitions, totals, who would lose what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dashboard.cli import output
from dashboard.cli.purge import moves_text
from dashboard.core import words
from dashboard.core.offered import in_quotes
from dashboard.core.visible import in_lines
from dashboard.purge.plan import plan_words

_COLUMNS = (
    "topic", "partition", "log_start_offset", "target_offset", "high_watermark", "records",
    "bytes_at_once", "method", "guards",
)  # fmt: skip


def describe(view: Mapping[str, Any]) -> str:
    """Text for the object of `preview`: the last line is the sentence that --confirm repeats."""
    rows = [{**p, "bytes_at_once": output.size(p["bytes_at_once"])} for p in view["partitions"]]
    parts = [
        f"plan {view['plan_id']} on {view['cluster_name']}, target {view['target']}",
        output.table(rows, _COLUMNS),
        _totals(view["totals"]),
        *_reasons(view["partitions"]),
        *plan_words.coverage(view["coverage"]),
        *plan_words.unseen_readers(view["unseen_readers"]),
        *(_loss(group) for group in view["groups"] if group["loss_if_latest"]),
        *plan_words.declared(view["declarations"]),
        *(_waived(w) for w in view["waivers"]),
        *moves_text.planned(view),
        *(f"lifted {_lifted(o)} by {o['by']}: {o['reason']}" for o in view["overrides"]),
        *plan_words.rights_missing(view["rights_missing"]),
        f"sha256 {view['sha256']}",
        f"expires {view['expires_at']}" + (": EXPIRED, plan again" if view["expired"] else ""),
    ]
    if view["totals"]["free_partitions"]:
        parts.append(f"confirm with: --confirm {in_quotes(view['confirmation'])}")
    return in_lines(parts)


def _totals(totals: Mapping[str, Any]) -> str:
    unmeasured = totals["unmeasured_partitions"]
    return (
        f"{totals['free_partitions']} of {totals['partitions']} partitions are free: "
        f"at most {totals['records']} records, {words.freed(totals)}"
        + "".join(f" · {count} {method}" for method, count in totals["methods"].items())
        + (f" ({unmeasured} partitions not measured)" if unmeasured else "")
    )


def _reasons(partitions: list[Mapping[str, Any]]) -> list[str]:
    """Each guard's words once, with how many partitions it blocks."""
    found: dict[tuple[str, str, str], int] = {}
    for partition in partitions:
        for guard in partition["guards"]:
            key = (guard["name"], guard["reason"], guard["lift"])
            found[key] = found.get(key, 0) + 1
    return [
        f"guard {name} ({count} partitions): {reason} {lift}"
        for (name, reason, lift), count in sorted(found.items())
    ]


def _waived(waiver: dict[str, Any]) -> str:
    said = f"waived {waiver['group_id']} by {waiver['by']}: {waiver['reason']}"
    return f"{said} (ALIVE: it has members now, and goes on reading)" if waiver["alive"] else said


def _loss(group: Mapping[str, Any]) -> str:
    return (
        f"group {group['group_id']} would lose {group['loss_if_earliest']} records if it resets "
        f"to earliest, {group['loss_if_latest']} if it resets to latest"
    )


def _lifted(override: Mapping[str, Any]) -> str:
    group = override["group_id"]
    return f"{override['name']}:{group}" if group else str(override["name"])
