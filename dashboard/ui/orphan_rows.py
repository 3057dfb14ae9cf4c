"""Orphans on pages: their rows and totals, the table, and a card of evidence for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd
import pyarrow as pa
import streamlit as st

from dashboard.core.arrow import records
from dashboard.core.csv_cells import rows_as_csv
from dashboard.domain.acts import CHECKPOINT_ENTRY, NEVER, REMOVABLE, SCHEDULED, VERDICTS
from dashboard.orphans.verdicts import NEVER_SWEPT
from dashboard.settings.sections import Price, beside
from dashboard.store.finding_rows import DiskRow, OrphanRow
from dashboard.ui.components import grid, in_browser, markup
from dashboard.ui.components.glossary import term
from dashboard.views import formats
from dashboard.views.colours import ORPHAN

# Rows of the findings table `orphans` for a page: order, filters, totals in one sentence.

VERDICT_WORDS = {REMOVABLE: "✔ removable", SCHEDULED: "◷ scheduled", NEVER: "⊘ never"}
KIND_WORDS = {
    "stray": "the broker set it aside as stray",
    "recreated-topic": "of a topic that was deleted, and created again under its name",
    "deleted-topic": "of a topic that was deleted",
    "moved-away": "its partition was moved to other brokers",
    "abandoned-future": "a copy for another log dir that was never finished",
    "late-delete": "Kafka should have deleted it by now",
    "two-log-dirs": "its partition lies in two log dirs of this broker",
    "checkpoint-entry": "a line in a checkpoint file, without a folder",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the reader chose above the table; empty means everything."""

    folder: str = ""
    kind: str | None = None
    verdict: str | None = None
    broker: str | None = None

    def keep(self, row: OrphanRow) -> bool:
        """Whether a row passes all of them."""
        return (
            self.folder.lower() in row.path.lower()
            and self.kind in (None, row.kind)
            and self.verdict in (None, row.verdict)
            and self.broker in (None, str(row.broker_id))
        )


def ordered(orphans: pa.Table) -> tuple[OrphanRow, ...]:
    """What may go first, then by what it gives back, then by place."""
    rows = records(orphans, OrphanRow)
    rows.sort(key=lambda r: (r.broker_id, r.path))
    rows.sort(key=lambda r: (VERDICTS.index(r.verdict), -(r.on_disk or 0)))
    return tuple(rows)


def total(rows: Iterable[OrphanRow]) -> int:
    """Bytes on disk as far as they are known."""
    return sum(row.on_disk or 0 for row in rows)


def sentence(rows: Sequence[OrphanRow], now: datetime, price: Price | None = None) -> str:
    """How much lies there, how much of it may go, and when the rest is looked at again (HTML);
    `price` tells what those bytes cost.
    """
    whole = markup.strong(markup.size(total(rows)), ORPHAN)
    parts = [f"{whole}{_cost(price, rows)} in {formats.plural(len(rows), 'orphan')}."]
    ready = [row for row in rows if sweepable(row)]
    if ready:
        count = formats.plural(len(ready), "folder")
        parts.append(
            f"<b>{markup.size(total(ready))}</b>{_cost(price, ready)} "
            f"{term('may go now', 'verdict')}, in {count}."
        )
    else:
        parts.append("Nothing may go yet.")
    waiting = [row for row in rows if row.verdict == SCHEDULED]
    if waiting:
        first = min(row.check_at for row in waiting if row.check_at is not None)
        parts.append(
            f"{markup.size(total(waiting))} in {formats.number(len(waiting))} wait; the first is "
            f"looked at again {markup.hover(until(first, now), markup.exact(first))}."
        )
    staying = len(rows) - len(ready) - len(waiting)
    if staying:
        parts.append(f"{formats.number(staying)} {'stays' if staying == 1 else 'stay'}.")
    unknown = sum(row.on_disk is None and row.kind != CHECKPOINT_ENTRY for row in rows)
    if unknown:
        parts.append(f"The size of {formats.number(unknown)} is not known.")
    return " ".join(parts)


def _cost(price: Price | None, rows: Iterable[OrphanRow]) -> str:
    return markup.text(beside(price, total(rows)))


def sweepable(row: OrphanRow) -> bool:
    """Whether a sweep would look at it: it may go, and is of a kind that a sweep moves."""
    return bool(row.verdict == REMOVABLE and row.kind not in NEVER_SWEPT)


def until(moment: datetime, now: datetime) -> str:
    """`in 5 d`, or `by the next analysis` where that time has passed."""
    return "by the next analysis" if moment <= now else f"in {formats.duration(moment - now)}"


# The orphans as CSV: one line each, with verdict, times and evidence.

COLUMNS = (
    "broker_id", "log_dir", "directory", "topic", "partition", "topic_id", "current_topic_id",
    "kind", "verdict", "reason", "check_at", "size_bytes", "index_bytes", "allocated_bytes",
    "newest_at", "first_seen_at", "last_seen_at", "snapshots_seen", "evidence",
)  # fmt: skip


def as_csv(orphans: Iterable[OrphanRow]) -> str:
    """Rows of the findings table `orphans`; times are UTC, unknown is an empty cell."""
    return rows_as_csv(COLUMNS, ([getattr(row, name) for name in COLUMNS] for row in orphans))


# The table of orphans: one line each, what may go first.

TABLE_SHOWN = 1000  # rows that can be selected cannot be fetched as they are scrolled to


def frame(rows: Sequence[OrphanRow]) -> tuple[pd.DataFrame, str]:
    """The rows as a frame, and the unit of the column of bytes."""
    sizes = [row.on_disk for row in rows]
    unit, divisor = formats.common_unit(sizes)
    shown = {
        "Verdict": [VERDICT_WORDS[row.verdict] for row in rows],
        "Kind": [row.kind for row in rows],
        "Broker": [row.broker_id for row in rows],
        "Log dir": [row.log_dir for row in rows],
        "Folder": [row.name for row in rows],
        "On disk": pd.Series([None if s is None else s / divisor for s in sizes], dtype="float64"),
        "Newest record": _times(rows, "newest_at"),
        "First seen": _times(rows, "first_seen_at"),
        "Reason": [row.reason for row in rows],
    }
    return pd.DataFrame(shown), unit


def show_table(rows: Sequence[OrphanRow]) -> list[OrphanRow]:
    """Draw the first rows; those that are selected."""
    rest, rows = len(rows) - TABLE_SHOWN, rows[:TABLE_SHOWN]
    shown, unit = frame(rows)
    number, text, time = (
        st.column_config.NumberColumn,
        st.column_config.TextColumn,
        st.column_config.DatetimeColumn,
    )
    chosen = grid.selected(
        shown,
        {
            "Verdict": text(width=100),
            "Kind": text(width=110),
            "Broker": number(width=60),
            "Log dir": text(width=90),
            "Folder": text(width=grid.room_for((row.name for row in rows), 220)),
            "On disk": number(f"On disk ({unit})", format="%.2f", width=100),
            "Newest record": time(format="distance", width=115),
            "First seen": time(format="distance", width=105),
            "Reason": text(width=280),
        },
        (row.path for row in rows),
        key="orphans",
        several=True,
        alt="Orphans with verdict, kind, broker, log dir, folder, bytes on disk, times and reason",
    )
    if rest > 0:
        st.caption(
            f"The first {formats.number(TABLE_SHOWN)}; {formats.number(rest)} more: filter to see "
            "them, the CSV has all."
        )
    return [rows[index] for index in chosen]


def _times(rows: Sequence[OrphanRow], column: str) -> pd.Series:
    return pd.Series(pd.to_datetime([getattr(row, column) for row in rows], utc=True))


# Evidence cards: all that is known of one orphan, its verdict, and the line that sweeps it.

CARDS_SHOWN = 12


def show_cards(rows: Sequence[OrphanRow], lines: Mapping[int, str], now: datetime) -> None:
    """The first cards, two beside each other. `lines`: the sweep's line by broker."""
    shown = rows[:CARDS_SHOWN]
    for at in range(0, len(shown), 2):
        places = st.columns(2, gap="small")
        for place, row in zip(places, shown[at : at + 2], strict=False):
            with place, st.container(border=True, height="stretch"):
                st.html(card_html(row, now))
                if sweepable(row):
                    in_browser.copyable(lines[row.broker_id])
    rest = len(rows) - len(shown)
    if rest > 0:
        st.caption(f"and {formats.plural(rest, 'card')} more: filter, or select rows.")


def card_html(row: OrphanRow, now: datetime) -> str:
    """One card; what is not known says so."""
    facts = "".join(f"<dt>{term}</dt><dd>{said}</dd>" for term, said in _facts(row, now))
    return (
        f'<div class="lw lw-card"><h3>✚ {markup.text(row.name)}</h3>'
        f"<p>{_verdict(row, now)}</p><dl>{facts}</dl>"
        f"<p><small>{markup.text(row.evidence or '')}</small></p>{_how(row)}</div>"
    )


def _verdict(row: OrphanRow, now: datetime) -> str:
    said = f"<b>{VERDICT_WORDS[row.verdict]}</b>: {markup.text(row.reason)}."
    moment = row.check_at
    if row.verdict != SCHEDULED or moment is None:
        return said
    return f"{said} Looked at again {markup.hover(until(moment, now), markup.exact(moment))}."


def _facts(row: OrphanRow, now: datetime) -> list[tuple[str, str]]:
    where = f"broker {row.broker_id}, {row.log_dir}"
    seen = formats.plural(row.snapshots_seen, "snapshot") if row.snapshots_seen else "unknown"
    return [
        ("Where", markup.text(where)),
        ("Kind", markup.text(f"{row.kind}: {KIND_WORDS.get(row.kind, '')}")),
        ("Topic", markup.text(f"{row.topic}, partition {row.partition}")),
        ("Topic id", _ids(row)),
        ("On disk", _size(row)),
        ("Newest record", markup.ago(row.newest_at, now)),
        ("Seen", f"first {markup.ago(row.first_seen_at, now)}, last "
                 f"{markup.ago(row.last_seen_at, now)}, by {seen}"),
    ]  # fmt: skip


def _ids(row: OrphanRow) -> str:
    mine = row.topic_id or "none in the folder"
    today = row.current_topic_id
    named = f"<code>{markup.text(today)}</code>" if today else "no topic of that name is known"
    return f"<code>{markup.text(mine)}</code><br>today: {named}"


def _size(row: OrphanRow) -> str:
    said = markup.size(row.on_disk)
    if row.allocated_bytes is None:
        return f"{said} of log; the rest is not known without an inventory"
    return f"{said}, {markup.size(row.size_bytes)} of it records"


def _how(row: OrphanRow) -> str:
    """What the line below the card does, or why there is none."""
    if row.kind in NEVER_SWEPT:
        return "<p>No sweep touches this kind; see docs/sweep.md.</p>"
    if not sweepable(row):
        return ""
    return (
        "<p><small>On the broker's host, with the verdicts file: tells what it would do for every "
        "removable folder there; <code>--apply</code> moves them into a quarantine.</small></p>"
    )


def lines_of(disks: Sequence[DiskRow], line: Callable[[list[str]], str]) -> dict[int, str]:
    """The sweep's line by broker: `line` makes it from all the log dirs of one."""
    by_broker: dict[int, list[str]] = {}
    for row in disks:
        if row.log_dir is not None:
            by_broker.setdefault(row.broker_id, []).append(row.log_dir)
    return {broker: line(sorted(dirs)) for broker, dirs in by_broker.items()}
