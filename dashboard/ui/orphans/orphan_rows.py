"""Rows of the findings table `orphans` for a page: order, filters, totals in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from dashboard.core.csv_cells import rows_as_csv
from dashboard.orphans.missing import NEVER_SWEPT
from dashboard.safety.orphan_words import CHECKPOINT_ENTRY, NEVER, REMOVABLE, SCHEDULED, VERDICTS
from dashboard.ui.components import markup
from dashboard.views import formats
from dashboard.views.colours import ORPHAN

Row = Mapping[str, Any]
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

    def keep(self, row: Row) -> bool:
        """Whether a row passes all of them."""
        return (
            self.folder.lower() in path(row).lower()
            and self.kind in (None, row["kind"])
            and self.verdict in (None, row["verdict"])
            and self.broker in (None, str(row["broker_id"]))
        )


def ordered(orphans: pa.Table) -> tuple[Row, ...]:
    """What may go first, then by what it gives back, then by place."""
    rows: list[Row] = orphans.to_pylist()
    rows.sort(key=lambda r: (r["broker_id"], path(r)))
    rows.sort(key=lambda r: (VERDICTS.index(r["verdict"]), -(on_disk(r) or 0)))
    return tuple(rows)


def name(row: Row) -> str:
    """Its folder; of a checkpoint entry the partition that it names."""
    return row["directory"] or f"{row['topic']}-{row['partition']}"


def path(row: Row) -> str:
    """Log dir and name."""
    return f"{row['log_dir']}/{name(row)}"


def on_disk(row: Row) -> int | None:
    """What the disk gave for it; without an inventory the bytes of its log."""
    found: int | None = row["allocated_bytes"]
    return row["size_bytes"] if found is None else found


def total(rows: Iterable[Row]) -> int:
    """Bytes on disk as far as they are known."""
    return sum(on_disk(row) or 0 for row in rows)


def sentence(rows: Sequence[Row], now: datetime) -> str:
    """How much lies there, how much of it may go, and when the rest is looked at again (HTML)."""
    whole = markup.strong(markup.size(total(rows)), ORPHAN)
    parts = [f"{whole} in {formats.plural(len(rows), 'orphan')}."]
    ready = [row for row in rows if sweepable(row)]
    if ready:
        count = formats.plural(len(ready), "folder")
        parts.append(f"<b>{markup.size(total(ready))}</b> may go now, in {count}.")
    else:
        parts.append("Nothing may go yet.")
    waiting = [row for row in rows if row["verdict"] == SCHEDULED]
    if waiting:
        first = min(row["check_at"] for row in waiting)
        parts.append(
            f"{markup.size(total(waiting))} in {formats.number(len(waiting))} wait; the first is "
            f"looked at again {markup.hover(until(first, now), formats.utc(first))}."
        )
    staying = len(rows) - len(ready) - len(waiting)
    if staying:
        parts.append(f"{formats.number(staying)} {'stays' if staying == 1 else 'stay'}.")
    unknown = sum(on_disk(row) is None and row["kind"] != CHECKPOINT_ENTRY for row in rows)
    if unknown:
        parts.append(f"The size of {formats.number(unknown)} is not known.")
    return " ".join(parts)


def sweepable(row: Row) -> bool:
    """Whether a sweep would look at it: it may go, and is of a kind that a sweep moves."""
    return bool(row["verdict"] == REMOVABLE and row["kind"] not in NEVER_SWEPT)


def until(moment: datetime, now: datetime) -> str:
    """`in 5 d`, or `by the next analysis` where that time has passed."""
    return "by the next analysis" if moment <= now else f"in {formats.duration(moment - now)}"


# The orphans as CSV: one line each, with verdict, times and evidence.

COLUMNS = (
    "broker_id", "log_dir", "directory", "topic", "partition", "topic_id", "current_topic_id",
    "kind", "verdict", "reason", "check_at", "size_bytes", "index_bytes", "allocated_bytes",
    "newest_at", "first_seen_at", "last_seen_at", "snapshots_seen", "evidence",
)  # fmt: skip


def as_csv(orphans: Iterable[Mapping[str, Any]]) -> str:
    """Rows of the findings table `orphans`; times are UTC, unknown is an empty cell."""
    return rows_as_csv(COLUMNS, ([row[name] for name in COLUMNS] for row in orphans))
