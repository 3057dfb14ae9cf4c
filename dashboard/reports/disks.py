"""How full the disks are and will be, and which topics make them grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from dashboard.reports.parts import (
    MOST_BARS,
    Bar,
    Bars,
    Figure,
    Section,
    Table,
    Words,
    capped,
    columns,
    number,
    rate,
    size,
    text,
)
from dashboard.reports.source import Source
from dashboard.views import days_to_full, formats
from dashboard.views.colours import HELD, LIVE, ORPHAN, RECLAIMABLE, UNKNOWN, Meaning

Row = Mapping[str, Any]
_FREE = Meaning("free", "#e2e8f0", "#475569", "#cbd5e1", "□")
_PARTS = (
    (LIVE, ("live_bytes", "future_bytes", "index_bytes", "delete_bytes")),
    (HELD, ("held_bytes",)),
    (RECLAIMABLE, ("reclaimable_bytes",)),
    (ORPHAN, ("stray_bytes", "orphan_bytes")),
    (UNKNOWN, ("unexplained_bytes",)),
    (_FREE, ("usable_bytes",)),
)
_WEEK = 7
_LEAST_GROWTH_WINDOW = "3 snapshots over 10 minutes"


def used_share(row: Row) -> float | None:
    """0 to 1; None where the broker does not tell total and usable bytes (KIP-827)."""
    if not row["total_bytes"] or row["usable_bytes"] is None:
        return None
    return float(1 - row["usable_bytes"] / row["total_bytes"])


def fullest_first(disks: Sequence[Row]) -> list[Row]:
    """Log dirs by fullness; those of unknown fullness last."""

    def order(row: Row) -> tuple[float, int, str]:
        share = used_share(row)
        return (-(share if share is not None else -1), row["broker_id"], row["log_dir"] or "")

    return sorted(disks, key=order)


def figures(source: Source) -> tuple[Figure, ...]:
    """The fullest disk, and the one that is full first."""
    disks = fullest_first(source.rows("disks"))
    known = [row for row in disks if used_share(row) is not None]
    if not known:
        return (Figure("Fullest disk", Words(formats.UNKNOWN), "no broker tells sizes"),)
    share = used_share(known[0]) or 0.0
    fullest = Figure("Fullest disk", Words(f"{share:.0%}"), _where(known[0]))
    rates = days_to_full.of_disks(source.rows("growth"))
    untold = _untold(disks, rates)
    filling = [row for row in rates.values() if row["days_to_full"] is not None]
    if not filling:
        said, note = (formats.UNKNOWN, untold) if untold else ("not filling up", "at today's pace")
        return fullest, Figure("First disk full", Words(said), note)
    first = min(filling, key=lambda row: row["days_to_full"])
    in_days = Words(f"in {days_to_full.length(first['days_to_full'])}")
    sure = days_to_full.between(first["days_to_full_low"], first["days_to_full_high"])
    note = ", ".join(filter(None, (_where(first), sure, untold)))
    return fullest, Figure("First disk full", in_days, note)


def _untold(disks: Sequence[Row], rates: Mapping[tuple[int, str], Row]) -> str:
    """How many log dirs' pace is not known, in words; empty: none's."""
    known = _paced(rates)
    if not known:
        return "not enough history yet"
    without = len(disks) - known
    return f"{formats.plural(without, 'log dir')} of unknown pace" if without > 0 else ""


def _paced(rates: Mapping[tuple[int, str], Row]) -> int:
    """Log dirs whose pace is known."""
    return sum(row["used_bytes_per_hour"] is not None for row in rates.values())


def section(source: Source) -> Section:
    """Every log dir as a bar and a row; the topics that grow fastest."""
    disks = fullest_first(source.rows("disks"))
    growth = source.rows("growth")
    rates = days_to_full.of_disks(growth)
    name, title = "disks", "Disks, growth and days to full"
    if not disks:
        return Section(name, title, (text("No broker told its log dirs: their state is unknown."),))
    drawn = (Bar(_where(row), _parts(row)) for row in disks[:MOST_BARS])
    bars = tuple(bar for bar in drawn if any(value for _, value in bar.parts))
    shown, more = capped(disks, "disks")
    rows = tuple(_disk(row, rates.get((row["broker_id"], row["log_dir"]))) for row in shown)
    heads = columns("Broker", "Log dir", ">Total", ">Free", ">Full", ">Reclaimable",
                    ">Orphans", ">Change", "Full in", "Note")  # fmt: skip
    chart = Bars("Log dirs, fullest first: what lies on them", bars)
    tables = [Table(heads, rows, "Log dirs", more), *_topics(growth)]
    return Section(name, title, (_said(disks, rates),), (chart,) if bars else (), tuple(tables))


def _said(disks: Sequence[Row], rates: Mapping[tuple[int, str], Row]) -> tuple[Words, ...]:
    soon = [r for r in rates.values() if (days := r["days_to_full"]) is not None and days <= _WEEK]
    unmeasured = sum(used_share(row) is None for row in disks)
    said = []
    untold = _untold(disks, rates)
    if _paced(rates):
        more = f" ({untold})" if untold else ""
        said.append(
            f"{len(soon)} of {formats.plural(len(disks), 'log dir')} will be full within a week "
            f"at today's pace{more}."
        )
    else:
        said.append(f"Growth is not known yet: it takes {_LEAST_GROWTH_WINDOW}.")
    if unmeasured:
        said.append(
            f"{formats.plural(unmeasured, 'log dir')} of unknown size (KIP-827, Kafka 3.3), or "
            "its broker did not answer."
        )
    said.append("Here whole segments count as given back; by topic, all bytes below the targets.")
    return text(*said)


def _parts(row: Row) -> tuple[tuple[Meaning, float], ...]:
    return tuple((meaning, sum(row[name] or 0 for name in names)) for meaning, names in _PARTS)


def _disk(row: Row, growth: Row | None) -> tuple[Words, ...]:
    share = used_share(row)
    stray, orphan = row["stray_bytes"], row["orphan_bytes"]
    orphans = None if stray is None and orphan is None else (stray or 0) + (orphan or 0)
    note = row["error"] or ("" if row["inventory_at"] else "no inventory of this disk")
    return (
        number(row["broker_id"]),
        Words(row["log_dir"] or formats.UNKNOWN),
        size(row["total_bytes"]),
        size(row["usable_bytes"]),
        Words(formats.UNKNOWN if share is None else f"{share:.0%}"),
        size(row["reclaimable_bytes"], RECLAIMABLE if row["reclaimable_bytes"] else None),
        size(orphans, ORPHAN if orphans else None),
        rate(growth["used_bytes_per_hour"] if growth else None),
        Words(_full_in(growth), exact=_window(growth)),
        Words(note),
    )


def _full_in(growth: Row | None) -> str:
    return days_to_full.said(growth).removeprefix("full in ")


def _window(growth: Row | None) -> str:
    if growth is None or growth["window_seconds"] is None:
        return ""
    length = formats.duration(timedelta(seconds=growth["window_seconds"]))
    return f"from {growth['samples']} snapshots over {length}"


def _topics(growth: Sequence[Row]) -> list[Table]:
    topics = [r for r in growth if r["topic"] is not None and r["broker_id"] is None]
    known = [row for row in topics if row["growth_per_hour"] is not None]
    if not known:
        return []
    known.sort(key=lambda row: (-row["growth_per_hour"], row["topic"]))
    shown, more = capped(known, "growth", 10)
    rows = tuple(
        (Words(row["topic"]), rate(row["bytes_in_per_hour"]), rate(row["bytes_out_per_hour"]),
         rate(row["growth_per_hour"]), Words(_window(row)))
        for row in shown
    )  # fmt: skip
    new = len(topics) - len(known)
    left = f"{formats.plural(new, 'topic')} too new to tell" if new else ""
    heads = columns("Topic", ">Written", ">Deleted", ">Growth", "Seen")
    more = "; ".join(said for said in (more, left) if said)
    return [Table(heads, rows, "Topics that grow fastest", more)]


def _where(row: Row) -> str:
    return f"broker {row['broker_id']} {row['log_dir'] or 'unknown log dir'}"
