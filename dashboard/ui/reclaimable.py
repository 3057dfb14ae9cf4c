"""Topics by what they can give back: filters, the table, the what-if, and a strip per partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.safety.unseen_readers import TopicReading, of_finding
from dashboard.store.finding_rows import Blocker
from dashboard.ui.components import grid, markup
from dashboard.ui.components.grid import one, pick
from dashboard.ui.components.markup import plain, text
from dashboard.ui.session import routes
from dashboard.ui.session.context import (
    Screen,
    Tables,
    facts_of,
    findings_of,
    known_groups,
    rows_of,
)
from dashboard.views import formats
from dashboard.views.facts import UNDECLARED
from dashboard.views.headline import alive_said, at_least, blockers_listed
from dashboard.views.topic_rows import (
    CAPPED,
    Filters,
    TopicRow,
    groups_of,
    topics_of_broker,
    topics_of_group,
)
from dashboard.views.what_if import waive

_SUSPECTED = 12  # topics that are named, those first of which most is unexplained

# The filters above the table; they live in the address, so that a view can be sent to others.

_LEAST = {"any": 0, "1 MiB": 2**20, "100 MiB": 100 * 2**20, "1 GiB": 2**30, "10 GiB": 10 * 2**30}


def choose_filters(screen: Screen) -> Filters:
    """Draw topic, broker, group, guard and least bytes; what they keep."""
    columns = st.columns(5)
    holds = findings_of(screen).table("holds")
    replicas, topics = screen.snapshot.table("replicas"), screen.snapshot.table("topics")
    brokers = screen.snapshot.derived(
        "brokers with replicas", lambda: sorted(pc.unique(replicas["broker_id"]).to_pylist())
    )
    guards = sorted({guard for row in rows_of(screen) for guard in row.guards})
    topic = columns[0].text_input(
        "Topic", key="topic", bind="query-params", placeholder="part of its name"
    )
    broker = one(columns[1], "Broker", "broker", [str(b) for b in brokers])
    group = one(columns[2], "Group", "group", known_groups(screen))
    guard = one(columns[3], "Guard", "guard", ["none", *guards])
    least = columns[4].selectbox("At least reclaimable", list(_LEAST), key="least")
    return Filters(
        topic=(topic or "").strip(),
        broker_topics=topics_of_broker(replicas, topics, int(broker)) if broker else None,
        group_topics=topics_of_group(holds, group) if group else None,
        guard=guard,
        least_bytes=_LEAST[least],
    )


# The table of topics: one unit per column, sortable numbers, guards in words.

_SIZES = (
    ("On disk", "size_bytes", "All replicas together, .log files only"),
    ("Reclaimable", "reclaimable_bytes", "Below the target: every known group has passed it"),
    ("At once", "at_once_bytes", "Whole segments below the target: they leave minutes after"),
    ("Later", "later_bytes", "Below the target, in segments that hold newer records too"),
    ("Held back", "held_bytes", f"Above the target: a group has not read it, or {CAPPED} holds it"),
)
_WIDTHS = (68, 94, 72, 60, 82)
_NEEDED = "it takes 3 snapshots over 10 minutes."
GROWTH = "Growth per hour"
_GROWTH_WHY = (
    "Bytes written less bytes deleted, all replicas together, over the last 12 to 24 hours as far "
    "as snapshots reach"
)


def growth_of(growth: pa.Table) -> dict[str, int]:
    """Bytes per hour that each topic grows by; those without enough history are left out."""
    whole = growth.filter(growth["broker_id"].is_null())
    rows = whole.select(["topic", "growth_per_hour"]).to_pylist()
    known = (row for row in rows if row["topic"] and row["growth_per_hour"] is not None)
    return {row["topic"]: row["growth_per_hour"] for row in known}


def frame(
    rows: Sequence[TopicRow], growth: Mapping[str, int]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The rows as a frame, with the unit of each column of bytes: one for all sizes, another for
    `growth`, bytes per hour by topic.
    """
    sizes = [getattr(row, field) for row in rows for _, field, _ in _SIZES]
    unit, divisor = formats.common_unit(sizes)
    columns: dict[str, object] = {"Topic": [row.topic for row in rows]}
    for title, field, _ in _SIZES:
        columns[title] = _numbers((getattr(row, field) for row in rows), divisor)
    units = dict.fromkeys((title for title, _, _ in _SIZES), unit)
    found = [growth.get(row.topic) for row in rows]
    units[GROWTH], divisor = formats.common_unit(None if g is None else abs(g) for g in found)
    columns[GROWTH] = _numbers(found, divisor)
    columns["Held by"] = pd.Categorical([row.holder for row in rows])
    columns["Guards"] = pd.Categorical([_guards(row) for row in rows])
    return pd.DataFrame(columns), units


def show(
    rows: Sequence[TopicRow],
    growth: Mapping[str, int],
    made: tuple[pd.DataFrame, dict[str, str]],
    key: str,
) -> list[str]:
    """Draw the table as `frame` made it; the topics whose rows are selected."""
    shown, units = made
    chosen = grid.selected(
        shown,
        _config(units, grid.room_for((row.topic for row in rows), 150)),
        (row.topic for row in rows),
        key=key,
        several=True,
        alt="Topics with bytes on disk, reclaimable at once and later, held back, and guards",
    )
    said = f"Sizes in {units['On disk']}, growth in {units[GROWTH]} an hour."
    if new := sum(row.topic not in growth for row in rows):
        said += f" {GROWTH}: not enough history yet for {formats.plural(new, 'topic')}; {_NEEDED}"
    st.caption(said)
    if len(rows) == 1:  # there is nothing to choose between
        return [rows[0].topic]
    return [rows[index].topic for index in chosen]


def _config(units: Mapping[str, str], topic_width: int) -> dict[str, Any]:
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    config: dict[str, Any] = {
        title: number(format="%.2f", help=f"{why}; in {units[title]}", width=width)
        for (title, _, why), width in zip(_SIZES, _WIDTHS, strict=True)
    }
    why = f"{_GROWTH_WHY}; in {units[GROWTH]}"
    config[GROWTH] = number("Growth/h", format="%.2f", help=why, width=80)
    config["Topic"] = text(width=topic_width)
    config["Held by"] = text(help="The group that holds back most of it", width=90)
    config["Guards"] = text(help="What blocks a purge; select the row for the reasons", width=150)
    return config


def _numbers(sizes: Iterable[int | None], divisor: int) -> pd.Series:
    """What a browser shows with two digits behind the point; like texts that stand there once, half
    as much of a large cluster has to go there.
    """
    scaled = [None if size is None else size / divisor for size in sizes]
    return pd.Series(scaled, dtype="float32")


def _guards(row: TopicRow) -> str:
    if not row.guards:
        return "✔ none"
    some = f"{row.free_partitions}/{row.partitions} free; " if row.free_partitions else ""
    named = sorted(row.guards, key=lambda name: (name == UNDECLARED, name))
    return f"⊘ {some}{', '.join(named)}"


# The what-if at the side: tick groups to waive, and every number on the page redraws.

TICKS = 8


def choose(screen: Screen, topics: Collection[str]) -> tuple[str, ...]:
    """Draw the ticks for the groups on these topics; the groups to waive."""
    found = findings_of(screen)
    listed, rest = found.lately(("what if", tuple(topics)), lambda: _waivable(found, topics))
    st.html(
        '<div class="lw"><h2>What if … were waived?</h2><small>Nothing changes on the cluster; '
        "the numbers here redraw. Beside each group: what would leave at once.</small></div>"
    )
    chosen = [
        g
        for g, freed, of_it in listed
        if st.checkbox(_label(g, freed, of_it, screen.now), key=f"waive {g}")
    ]
    if rest:
        chosen += pick("Other groups", rest, "group", "waive-others", placeholder="none")
    return tuple(sorted(chosen))


def _waivable(
    found: Tables, topics: Collection[str]
) -> tuple[list[tuple[str, int, list[Blocker]]], list[str]]:
    """Of the groups on these topics those whose waiver frees most, and the names of the rest."""
    blockers = found.table("blockers")
    here = blockers.filter(pc.is_in(blockers["topic"], pa.array(sorted(topics), pa.string())))
    listed = blockers_listed(here, TICKS)
    most = {group for group, _, _ in listed}
    return listed, [g for g in groups_of(found.table("holds"), topics) if g not in most]


def redrawn(screen: Screen, waived: Sequence[str]) -> pa.Table:
    """The committed target's facts without the waived groups, exactly."""
    facts = facts_of(screen)
    if not waived:
        return facts
    found = findings_of(screen)
    return waive(
        facts,
        found.table("holds"),
        found.curves(),
        waived,
    )


def _label(group: str, freed: int, of_it: Sequence[Blocker], now: datetime) -> str:
    # Of a living group its members are enough: the label has one line.
    alive = alive_said(of_it, now).partition(", last commit")[0]
    return f"**{plain(group)}** · {at_least(of_it)}{formats.size(freed)} :small[{plain(alive)}]"


# A strip per partition: log start to high watermark, each group's commit, and the target.

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
        Strip(
            topic, row["partition"], row["log_start_offset"], row["high_watermark"],
            row["target_offset"], row["bytes_likely"], tuple(row["guard_names"]),
            commits.get(row["partition"], {}),
        )
        for row in found
        if row["log_start_offset"] is not None and row["high_watermark"] is not None
    ]  # fmt: skip


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


# Topics that somebody reads whom no group shows, by the newest analysis.


def show_unseen(screen: Screen) -> None:
    """What each suspected topic sent out beside what groups explain, a link to its page, most
    unexplained first; nothing where there is none.
    """
    findings = findings_of(screen)
    if "unseen_readers" not in findings.manifest.tables:
        return
    rows = map(of_finding, findings.table("unseen_readers").to_pylist())
    found = sorted((row for row in rows if row.suspected), key=_unexplained)
    if not found:
        return
    st.html(
        '<div class="lw"><h2 id="unseen">Readers that no group shows <small>by what brokers sent '
        "out in the last day; a plan measures it anew</small></h2></div>"
    )
    for row in found[:_SUSPECTED]:
        out, explained = map(row.an_hour, (row.bytes_out, row.explained_bytes))
        label = (
            f"**{plain(row.topic)}** sent out {formats.size(out)} an hour, of which its groups "
            f"explain {formats.size(explained)}"
        )
        routes.link("topic", label, name=row.topic)
    if len(found) > _SUSPECTED:
        more = formats.plural(len(found) - _SUSPECTED, "topic")
        st.caption(f"And {more} more: `lowwater findings unseen_readers` lists all.")


def _unexplained(row: TopicReading) -> tuple[int, str]:
    return (row.explained_bytes or 0) - (row.bytes_out or 0), row.topic
