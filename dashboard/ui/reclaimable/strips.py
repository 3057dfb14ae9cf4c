"""A strip per partition: log start to high watermark, each group's commit, and the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.ui.components import markup
from dashboard.ui.components.markup import text
from dashboard.views import formats

SHOWN = 24
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Strip:
    """One partition: offsets, the bytes below its target over all replicas, guards by name."""

    topic: str
    partition: int
    log_start: int
    high_watermark: int
    target: int | None
    bytes_likely: int | None
    guards: tuple[str, ...]
    committed: Mapping[str, int | None]

    def place(self, offset: int) -> float:
        """Where an offset lies, in percent from log start (0) to high watermark (100)."""
        span = self.high_watermark - self.log_start
        if span <= 0:
            return 0.0
        return max(0.0, min(100.0, 100 * (offset - self.log_start) / span))

    @property
    def furthest(self) -> int | None:
        """The highest commit: between the target and it, some have read and some have not."""
        return max((o for o in self.committed.values() if o is not None), default=None)


def strips(facts: pa.Table, holds: pa.Table, topic: str) -> list[Strip]:
    """The strips of one topic, by partition. Partitions whose offsets are unknown are left out."""
    commits: dict[int, dict[str, int | None]] = {}
    for row in holds.filter(pc.equal(holds["topic"], topic)).to_pylist():
        commits.setdefault(row["partition"], {})[row["group_id"]] = row["committed_offset"]
    found = facts.filter(pc.equal(facts["topic"], topic)).sort_by("partition").to_pylist()
    return [
        _strip(row, commits.get(row["partition"], {}))
        for row in found
        if row["log_start_offset"] is not None and row["high_watermark"] is not None
    ]


def _strip(row: Mapping[str, Any], committed: Mapping[str, int | None]) -> Strip:
    return Strip(
        row["topic"], row["partition"], row["log_start_offset"], row["high_watermark"],
        row["target_offset"], row["bytes_likely"], tuple(row["guard_names"]), committed,
    )  # fmt: skip


def topic_html(facts: pa.Table, holds: pa.Table, topic: str, waived: Collection[str] = ()) -> str:
    """The topic's strips, and below them the reason of each guard with what ends it."""
    lines = "".join(
        f"<p><b>⊘ {text(name)}</b> ({formats.plural(count, 'partition')}): {text(reason)} "
        f"<span class=quiet>{text(lift)}</span></p>"
        for (name, reason, lift), count in guard_reasons(facts, topic).items()
    )
    return strips_html(strips(facts, holds, topic), waived) + (
        f'<div class="lw">{lines}</div>' if lines else ""
    )


def guard_reasons(facts: pa.Table, topic: str) -> dict[tuple[str, str, str], int]:
    """Each guard of the topic with its reason and lift, and on how many partitions it stands."""
    rows = facts.filter(pc.equal(facts["topic"], topic))["guards"].to_pylist()
    return dict(Counter((g["name"], g["reason"], g["lift"]) for row in rows for g in row or ()))


def strips_html(found: Sequence[Strip], waived: Collection[str] = ()) -> str:
    """All strips with their legend. Waived groups keep their tick, in brackets."""
    groups = sorted({group for strip in found for group in strip.committed})
    letters = {group: _LETTERS[i] if i < len(_LETTERS) else "·" for i, group in enumerate(groups)}
    head = "".join(
        f"<small>{name}</small>" for name in ("partition", "log start", "", "high watermark", "")
    )
    rows = "".join(_row(strip, letters, waived) for strip in found[:SHOWN])
    rest = len(found) - SHOWN
    more = f"<small>and {formats.plural(rest, 'partition')} more</small>" if rest > 0 else ""
    grid = f'<div class="lw-strips">{head}{rows}</div>'
    return f'<div class="lw">{_legend(letters, waived)}{grid}{more}</div>'


def _legend(letters: Mapping[str, str], waived: Collection[str]) -> str:
    named = " · ".join(
        f"<b>{letter}</b> {text(group)}{' (waived)' if group in waived else ''}"
        for group, letter in letters.items()
    )
    kinds = (
        '<span class="lw-key"><i class="lw-fill-reclaimable"></i>below the target</span>'
        '<span class="lw-key"><i class="lw-fill-held"></i>read by some, held by another</span>'
        '<span class="lw-key"><i class="lw-fill-live"></i>not read yet</span>'
        '<span class="lw-key">▼ target</span>'
    )
    ticks = f"Committed: {named}" if named else "No group has committed anything here"
    return f"<p>{kinds}</p><p><small>{ticks}</small></p>"


def _row(strip: Strip, letters: Mapping[str, str], waived: Collection[str]) -> str:
    name = f"{strip.topic}-{strip.partition}"
    given = (
        f"{markup.size(strip.bytes_likely)} reclaimable"
        if not strip.guards
        else f"{markup.size(strip.bytes_likely)}, guarded: {text(', '.join(strip.guards))}"
    )
    return (
        f"<b>{text(name)}</b><span>{formats.number(strip.log_start)}</span>"
        f'<div class="lw-strip" role="img" aria-label="{text(_said(strip))}">'
        f"{_fills(strip)}{_ticks(strip, letters, waived)}{_target(strip)}</div>"
        f"<span>{formats.number(strip.high_watermark)}</span><small>{given}</small>"
    )


def _fills(strip: Strip) -> str:
    if strip.target is None:
        return ""
    at = strip.place(strip.target)
    done = f'<span class="done" style="width:{at:.2f}%"></span>'
    if strip.furthest is None or strip.furthest <= strip.target:
        return done
    width = strip.place(strip.furthest) - at
    return f'{done}<span class="held" style="left:{at:.2f}%;width:{width:.2f}%"></span>'


def _ticks(strip: Strip, letters: Mapping[str, str], waived: Collection[str]) -> str:
    shown = []
    for group, offset in sorted(strip.committed.items()):
        if offset is None:
            continue
        mark = f"({letters[group]})" if group in waived else letters[group]
        behind = formats.number(max(0, strip.high_watermark - offset))
        hover = f"{group} committed {formats.number(offset)}, {behind} records to go"
        at = strip.place(offset)
        side = "right:3px" if at > 50 else "left:4px"
        shown.append(
            f'<span class="tick" title="{text(hover)}" style="left:calc({at:.2f}% - 1px)">'
            f'<i style="{side}">{mark}</i></span>'
        )
    return "".join(shown)


def _target(strip: Strip) -> str:
    if strip.target is None:
        return ""
    hover = f"target {formats.number(strip.target)}: records below it would go"
    return (
        f'<span class="target" title="{text(hover)}" '
        f'style="left:{strip.place(strip.target):.2f}%"></span>'
    )


def _said(strip: Strip) -> str:
    commits = ", ".join(
        f"{group} at {'nothing yet' if offset is None else offset}"
        for group, offset in sorted(strip.committed.items())
    )
    return (
        f"{strip.topic}-{strip.partition}: log start {strip.log_start}, target {strip.target}, "
        f"high watermark {strip.high_watermark}; {commits or 'no commits'}"
    )
