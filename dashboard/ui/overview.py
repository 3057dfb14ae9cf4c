"""Overview's sentence, pictures and lists: disks by meaning, what to look at first; what a demo
may break.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import streamlit as st

from dashboard.core import demo_faults
from dashboard.core.arrow import records
from dashboard.core.demo_faults import KINDS
from dashboard.core.words import first_letter_up
from dashboard.domain.model import used_share
from dashboard.reports.parts import Figure
from dashboard.settings.sections import Price
from dashboard.store.finding_rows import DiskRow, GrowthRow, OrphanRow
from dashboard.ui.components import markup
from dashboard.ui.components.glossary import term
from dashboard.ui.components.markup import plain
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen
from dashboard.views import colours, formats, headline
from dashboard.views.colours import HELD, ORPHAN, RECLAIMABLE, Meaning
from dashboard.views.followers import slow_units
from dashboard.views.headline import (
    Headline,
    alive_said,
    blockers_listed,
    unknown_blockers,
)
from dashboard.views.topic_rows import CAPPED


def sentence(numbers: Headline, price: Price | None = None) -> str:
    """The headline as HTML; exact bytes on hover. `price` tells what those bytes cost."""
    if numbers.consumed_bytes is None:
        return (
            "How many bytes can be given back is <b>unknown</b>: no replica's size could be read. "
            f"Every known group has passed {formats.number(numbers.records)} records at most.<br>"
            "<small>Sizes come from DescribeLogDirs, which needs DESCRIBE on the cluster; some "
            "managed services refuse it.</small>"
        )
    consumed = markup.strong(markup.size(numbers.consumed_bytes), RECLAIMABLE)
    declared = markup.strong(markup.size(numbers.declared_bytes), RECLAIMABLE)
    said = (
        f"{consumed} are consumed by every known group, {declared} of it in topics whose "
        f"{term('readers are declared', 'declared readers')}."
    )
    if numbers.waive_group:
        more = markup.strong(markup.size(numbers.waive_bytes), HELD)
        named = f"<b>{markup.text(numbers.waive_group)}</b>"
        least = first_letter_up(numbers.waive_least)
        waived = term("waived", "waiver")
        said += f" {least}{more} more would leave at once if {named} were {waived}."
    if numbers.orphan_bytes:
        said += f" {markup.strong(markup.size(numbers.orphan_bytes), ORPHAN)} in orphans."
    once = f"{markup.size(numbers.at_once_bytes)} leave {term('at once', 'freed at once')}"
    more = ""
    if numbers.unmeasured:
        count = formats.plural(numbers.unmeasured, "partition")
        more = f" {count} more could not be measured and are not in it."
    if price and (cost := price.a_month(numbers.consumed_bytes)):
        more += f" To keep what is consumed costs about {markup.text(cost)}."
    if numbers.guarded:
        more += f"<br>{markup.text(numbers.guards_said)}."
    return (
        f"{said}<br><small>{once}, in whole segments; the rest as active segments "
        f"roll. All replicas together.{more}</small>"
    )


def tiles_html(found: Sequence[Figure]) -> str:
    """The report's large numbers in a row: each with its word above and a note below."""
    cells = "".join(
        f"<div><small>{markup.text(each.label)}</small><b>{_figure(each)}</b>"
        f"<small>{markup.text(each.note)}</small></div>"
        for each in found
    )
    return f'<div class="lw"><div class="lw-counts lw-tiles">{cells}</div></div>'


def _figure(found: Figure) -> str:
    told, exact = found.value.text, found.value.exact
    return markup.hover(told, exact) if exact else markup.text(told)


# One bar per broker and log dir, stacked by meaning, fullest first.

DISKS_SHOWN = 12
# Below this share of the disk Kafka's bytes would be a hairline: then they are the whole bar.
_HAIRLINE = 0.05
_PARTS: tuple[tuple[str, Meaning, str], ...] = (
    ("live_bytes", colours.LIVE, "needed by somebody, or unknown"),
    ("future_bytes", colours.LIVE, "being moved between log dirs"),
    ("held_bytes", colours.HELD, f"held back by a group, or by {CAPPED}"),
    ("reclaimable_bytes", colours.RECLAIMABLE, "whole segments that every known group has passed"),
    ("index_bytes", colours.LIVE, "indexes beside the logs"),
    ("delete_bytes", colours.LIVE, "folders that Kafka is deleting"),
    ("stray_bytes", colours.ORPHAN, "folders that the broker set aside as stray"),
    ("orphan_bytes", colours.ORPHAN, "other folders that the cluster no longer knows"),
    ("unexplained_bytes", colours.UNKNOWN, "all else on that disk"),
)
_MIXED = "needed, held back, or below the targets: not told apart while guards hold it"
_UNNAMED = "log dirs"  # of a broker that told none
_NOBODY: Mapping[int, str] = {}
_WITHOUT_INVENTORY = "indexes, other files, or orphans: an inventory of this disk tells them apart"


@dataclass(frozen=True, slots=True)
class DiskBar:
    """One log dir: its parts in bytes (unknown ones left out), total and usable bytes.

    `growth`: its row of the findings table of that name, if there is one.
    """

    broker_id: int
    log_dir: str
    parts: tuple[tuple[Meaning, str, int], ...]
    total_bytes: int | None
    usable_bytes: int | None
    error: str | None
    growth: GrowthRow | None = None

    @property
    def listed_bytes(self) -> int:
        """Bytes of this log dir that Kafka lists or an inventory found."""
        return sum(size for meaning, _, size in self.parts if meaning is not colours.UNKNOWN)

    @property
    def kafka_alone(self) -> bool:
        """Whether the bar shows Kafka's bytes alone: the disk is unknown, or dwarfs them."""
        return not self.total_bytes or self.listed_bytes < _HAIRLINE * self.total_bytes

    @property
    def used_share(self) -> float | None:
        """0..1; None when the broker does not tell total and usable bytes (KIP-827)."""
        return used_share(self.total_bytes, self.usable_bytes)


def disk_bars(
    disks: pa.Table,
    growth: pa.Table,
    away: Mapping[int, str] = _NOBODY,
    *,
    guarded: bool = False,
) -> list[DiskBar]:
    """All log dirs, fullest first; before them those of brokers that are `away`, with the reason,
    after them others of unknown fullness. `guarded`: guards hold what would be reclaimable.
    """
    rates = headline.of_disks(growth)
    found = [
        DiskBar(
            row.broker_id,
            row.log_dir or _UNNAMED,
            tuple(_parts(row, guarded)),
            row.total_bytes,
            row.usable_bytes,
            row.error,
            rates.get((row.broker_id, row.log_dir)),
        )
        for row in records(disks, DiskRow)
    ]
    told = {bar.broker_id for bar in found}
    found += [
        DiskBar(broker, _UNNAMED, (), None, None, why)
        for broker, why in away.items()
        if broker not in told
    ]

    def order(bar: DiskBar) -> tuple[bool, float, int, str]:
        return (bar.broker_id not in away, -(bar.used_share or -1), bar.broker_id, bar.log_dir)

    return sorted(found, key=order)


def _parts(row: DiskRow, guarded: bool) -> Iterator[tuple[Meaning, str, int]]:
    # What guards hold counts as neither reclaimable nor held back: nobody has told it apart.
    own = row.guarded_bytes
    if own is None:  # of an analysis of before: all of it, or none
        mixed = guarded and not row.held_bytes and not row.reclaimable_bytes
        own = row.live_bytes if mixed else None
    if own:
        yield colours.GUARDED, _MIXED, own
        row = replace(row, live_bytes=max((row.live_bytes or 0) - own, 0))
    for column, meaning, why in _PARTS:
        if size := getattr(row, column):
            bare = meaning is colours.UNKNOWN and row.inventory_at is None
            yield meaning, _WITHOUT_INVENTORY if bare else why, size


def disks_html(
    disks: pa.Table,
    growth: pa.Table,
    away: Mapping[int, str] = _NOBODY,
    *,
    guarded: bool = False,
) -> str:
    """The bars with a legend; every segment says its meaning and bytes on hover."""
    found = disk_bars(disks, growth, away, guarded=guarded)
    shown = "".join(_bar(bar) for bar in found[:DISKS_SHOWN])
    rest = len(found) - DISKS_SHOWN
    more = f"<small>and {formats.plural(rest, 'log dir')} less full</small>" if rest > 0 else ""
    measured = [bar for bar in found[:DISKS_SHOWN] if bar.parts]
    alone = bool(measured) and all(bar.kafka_alone for bar in measured)
    return (
        f'<div class="lw"><h2>Disks, fullest first{_note(found)}</h2>{shown}{more}'
        f"<p>{_legend(found, alone)}</p></div>"
    )


def _note(found: list[DiskBar]) -> str:
    if not any(bar.kafka_alone and bar.total_bytes for bar in found[:DISKS_SHOWN]):
        return ""
    return " <small>by Kafka's bytes alone: other files dwarf them on that disk</small>"


def _legend(found: list[DiskBar], alone: bool) -> str:
    meanings = [colours.LIVE, colours.HELD, colours.RECLAIMABLE]
    there = {meaning for bar in found for meaning, _, _ in bar.parts}
    if colours.GUARDED in there:
        meanings = [m for m in meanings if m in there] + [colours.GUARDED]
    if colours.ORPHAN in there:
        meanings.append(colours.ORPHAN)
    named = "".join(markup.key(meaning, _total(found, meaning)) for meaning in meanings)
    if alone:
        return named
    # Several log dirs may share one disk, so the rest of it has no honest sum.
    free = '<span class="lw-key"><i style="background:var(--lw-free)"></i>free</span>'
    return named + markup.key(colours.UNKNOWN) + free


def _total(found: list[DiskBar], meaning: Meaning) -> str:
    if not any(bar.parts for bar in found):
        return formats.UNKNOWN
    size = formats.size(sum(size for bar in found for m, _, size in bar.parts if m is meaning))
    # The bars show whole segments, the sentence above them all bytes below the targets.
    return f"{size} at once" if meaning is colours.RECLAIMABLE else size


def _bar(bar: DiskBar) -> str:
    whose = markup.link("broker", str(bar.broker_id), f"broker {bar.broker_id}")
    log_dir = markup.hover(_short(bar.log_dir), bar.log_dir)
    label = f"<span>{whose} · {log_dir}</span>"
    if not bar.parts:
        why = bar.error or "no bytes told"
        return (
            f'<div class="lw-disk">{label}<div class="lw-bar"><span class="lw-fill-not" '
            f'style="width:100%"></span></div><small>{markup.text(why)}</small></div>'
        )
    whole = (bar.listed_bytes if bar.kafka_alone else bar.total_bytes) or 1
    shown = [p for p in bar.parts if not (bar.kafka_alone and p[0] is colours.UNKNOWN)]
    parts = "".join(_part(m, why, size, whole) for m, why, size in shown)
    said = ", ".join(f"{m.word} {formats.size(size)}" for m, _, size in bar.parts)
    return (
        f'<div class="lw-disk">{label}<div class="lw-bar" role="img" '
        f'aria-label="{markup.text(f"broker {bar.broker_id} {bar.log_dir}: {said}")}">{parts}'
        f"</div><small>{_end(bar)}</small></div>"
    )


def _part(meaning: Meaning, why: str, size: int, whole: int) -> str:
    hover = f"{meaning.word}: {formats.size(size)} ({formats.exact_size(size)}), {why}"
    return (
        f'<span class="lw-fill-{markup.name_of(meaning)}" title="{markup.text(hover)}" '
        f'style="width:{100 * size / whole:.3f}%"></span>'
    )


def _end(bar: DiskBar) -> str:
    if bar.used_share is None:
        return "size not told by the broker"
    free = markup.size(bar.usable_bytes)
    if bar.error:
        return markup.hover(f"{bar.used_share:.0%} full ⚠", bar.error)
    return f"<b>{bar.used_share:.0%}</b> full, {free} free<br>{_days_to_full(bar.growth)}"


def _days_to_full(growth: GrowthRow | None) -> str:
    """When the disk will be full if it goes on as in the window of its growth."""
    if growth is None or growth.used_bytes_per_hour is None:
        return "not enough history yet"
    window = timedelta(seconds=growth.window_seconds or 0)
    seen = f"in {growth.samples} snapshots over {formats.duration(window)}"
    sure = headline.between(growth.days_to_full_low, growth.days_to_full_high)
    why = f"{formats.signed(growth.used_bytes_per_hour)} an hour, {seen}"
    if sure:
        why += "; 9 times of 10 the true slope lies in that range"
    said = markup.hover(headline.likely(growth), why)
    return f"{said} ({sure})" if sure else said


def _short(log_dir: str) -> str:
    return log_dir if len(log_dir) <= 8 else f"…{log_dir[-7:]}"


# The Overview's short lists: five rows each, every row a link to where it is acted on.

ROWS = 5


def blockers(screen: Screen) -> None:
    """The groups that hold back most by themselves, also where waiving them would free nothing."""
    st.html('<div class="lw"><h2>Largest blockers</h2></div>')
    assert screen.findings is not None
    table = screen.findings.table("blockers")
    rows = screen.findings.derived(
        "largest blockers", lambda: blockers_listed(table, ROWS, "bytes_held_alone")
    )
    for group, held, of_it in rows:
        alive = plain(alive_said(of_it, screen.now))
        least = headline.at_least(of_it, "bytes_held_alone")
        label = f"**{plain(group)}** holds back {least}{formats.size(held)}, {alive}"
        routes.link("group", label, name=group)
    if not rows and unknown_blockers(table):
        st.caption("What groups hold back is unknown: no replica's size could be read.")
    elif not rows:
        st.caption("No group alone holds anything back.")


def followers(screen: Screen) -> None:
    """What makes followers slow, most replicas first, in the words of the page Followers."""
    st.html('<div class="lw"><h2>Slowest followers</h2></div>')
    assert screen.findings is not None
    found = screen.findings
    if "slow_followers" not in found.manifest.tables:
        st.caption("Not known: an older release wrote the findings. Analyze again.")
        return
    units = found.derived("slow units", lambda: slow_units(found.table("slow_followers")))
    for unit in units[:ROWS]:
        routes.link("followers", plain(unit.text), cause=unit.cause)
    if not units:
        routes.link("followers", "No follower is slow.")
    elif len(units) > ROWS:
        count = formats.plural(len(units), "reason")
        routes.link("followers", f"All {count} why followers are slow")


def orphans(screen: Screen) -> None:
    """The folders that were last found to be known to nobody."""
    assert screen.findings is not None
    table = screen.findings.table("orphans")
    rows = newest_orphans(table)
    if not rows:
        return
    st.html('<div class="lw"><h2>Newest orphans</h2></div>')
    for row in rows:
        label = (
            f"broker {row.broker_id}, **{plain(row.name)}**: {formats.size(row.on_disk)}, "
            f"{plain(row.kind)}, {row.verdict}, "
            f"first seen {formats.ago(row.first_seen_at, screen.now)}"
        )
        routes.link("orphans", label, folder=row.name, broker=str(row.broker_id))
    if table.num_rows > ROWS:
        routes.link("orphans", f"All {formats.plural(table.num_rows, 'orphan')} and their evidence")


def newest_orphans(orphans: pa.Table) -> list[OrphanRow]:
    """Rows of the findings, those seen last for the first time first, then by size and name."""
    rows = records(orphans, OrphanRow)
    rows.sort(key=lambda row: (row.broker_id, row.log_dir, row.directory or ""))
    rows.sort(key=lambda row: (row.first_seen_at, row.on_disk or 0), reverse=True)
    return rows[:ROWS]


_AGAIN = "2s"  # what was asked for takes up to half a minute


@st.fragment(run_every=_AGAIN)
def demo_panel(room: Path) -> None:
    """Every kind of fault: what it does, what became of it, and the button for it."""
    told = demo_faults.told(room)
    asked = demo_faults.asked(room)
    broken = f" ({len(told)} broken)" if told else ""
    with st.expander(f"This is a demo: break something{broken}"):
        for kind, about in KINDS.items():
            left, middle, right = st.columns([6, 2, 2], vertical_alignment="center")
            fault = told.get(kind)
            state = fault.state if fault else "whole"
            said = f" {markup.plain(fault.said)}." if fault and fault.said else ""
            left.markdown(f"**{kind}** · {state}. {markup.plain(about.does)}{said}")
            with middle:
                routes.link(about.page, f"Seen on {routes.TITLES[about.page]}")
            wanted = kind in asked
            right.button(
                f"Heal the {kind}" if wanted else f"Break a {kind}",
                key=f"demo-{kind}", width="stretch",
                disabled=fault is not None and fault.state in ("breaking", "healing"),
                on_click=demo_faults.take_back if wanted else demo_faults.ask, args=(room, kind),
            )  # fmt: skip
