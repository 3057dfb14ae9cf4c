"""Orphans, slow followers, and how complete the picture is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core import words
from dashboard.core.arrow import records
from dashboard.domain.acts import VERDICTS, seen_once
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
    known_sum,
    moment,
    number,
    rate,
    size,
    text,
)
from dashboard.reports.source import Source
from dashboard.store.finding_rows import DiskRow, GrowthRow, OrphanRow, SlowFollower
from dashboard.views import formats, headline
from dashboard.views.colours import HELD, LIVE, ORPHAN, RECLAIMABLE, UNKNOWN, Meaning
from dashboard.views.followers import slow_units
from dashboard.views.headline import Rates

Row = Mapping[str, Any]
_LAG = Meaning("behind its leader", "#2f62bd", "#173f8a", "#b9cdf0", "▼")
_MOST_UNITS = 8


def orphans_section(source: Source) -> Section:
    """Folders that the cluster no longer knows, with what may be done with them."""
    name, title = "orphans", "Orphans: bytes that Kafka no longer knows"
    rows = records(source.read("orphans"), OrphanRow)
    rows.sort(key=lambda r: (-(r.on_disk or 0), r.broker_id, r.log_dir, r.directory or ""))
    says = [_unseen(source)] if _unseen(source) else []
    once = seen_once(source.read("sightings").to_pylist())
    if once:
        says.append(f"{formats.plural(once, 'folder')} seen once only: no orphan yet.")
    if not rows:
        return Section(name, title, (text("No orphan is known.", *says),))
    total, unmeasured = known_sum(row.on_disk for row in rows)
    verdicts = Counter(row.verdict for row in rows)
    counted = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS)
    lead = f"{formats.plural(len(rows), 'orphan')} with {formats.size(total)}: {counted}."
    if unmeasured:
        lead += f" {formats.plural(unmeasured, 'size')} unknown."
    shown, more = capped(rows, "orphans")
    cells = tuple(
        (number(r.broker_id), Words(r.log_dir or formats.UNKNOWN), Words(r.name),
         Words(r.kind), size(r.on_disk, ORPHAN), Words(r.verdict), Words(r.reason or ""),
         moment(r.first_seen_at))
        for r in shown
    )  # fmt: skip
    heads = columns("Broker", "Log dir", "Folder", "Kind", ">Bytes", "Verdict", "Why",
                    "First seen (UTC)")  # fmt: skip
    bars = tuple(
        Bar(f"{r.name} on {r.broker_id}", ((ORPHAN, r.on_disk or 0),)) for r in rows[:MOST_BARS]
    )
    chart = Bars("The largest orphans", bars)
    charts = (chart,) if chart.longest else ()
    return Section(name, title, (text(lead, *says),), charts, (Table(heads, cells, more=more),))


def _unseen(source: Source) -> str:
    bare = sorted({row.broker_id for row in _disks(source) if row.inventory_at is None})
    if not bare:
        return ""
    shown = words.brokers(bare) if len(bare) <= _MOST_UNITS else f"{len(bare)} brokers"
    return f"No inventory of {shown}: folders there that Kafka does not list are unknown."


def followers_section(source: Source) -> Section:
    """A sentence for each thing at fault, and the replicas that are furthest behind."""
    name, title = "followers", "Slow followers"
    table = source.read("slow_followers")
    slow = [row for row in records(table, SlowFollower) if row.slow]
    if not table.num_rows:
        return Section(name, title, (text("No partition has a follower."),))
    if not slow:
        count = formats.plural(table.num_rows, "follower")
        return Section(name, title, (text(f"None of {count} is slow."),))
    slow.sort(key=lambda r: (r.topic, r.partition, r.broker_id))
    slow.sort(key=lambda r: r.lag_seconds is None)
    slow.sort(key=lambda r: -(r.lag_seconds or 0))
    units = slow_units(table)
    says = [text(f"{words.first_letter_up(unit.text)}.") for unit in units[:_MOST_UNITS]]
    if len(units) > _MOST_UNITS:
        says.append(text(f"And {len(units) - _MOST_UNITS} more causes."))
    shown, more = capped(slow, "slow_followers")
    rows = tuple(
        (Words(r.topic), number(r.partition), number(r.broker_id),
         number(r.lag_records), size(r.lag_bytes), _seconds(r.lag_seconds),
         Words(r.trend or formats.UNKNOWN), Words("yes" if r.in_sync else "no"),
         Words(r.cause or formats.UNKNOWN))
        for r in shown
    )  # fmt: skip
    heads = columns("Topic", ">Partition", ">Broker", ">Records", ">Bytes", ">Time", "Trend",
                    "In sync", "Cause")  # fmt: skip
    late = [row for row in slow if row.lag_seconds][:MOST_BARS]
    bars = tuple(
        Bar(f"{r.topic}-{r.partition} on {r.broker_id}", ((_LAG, r.lag_seconds or 0.0),))
        for r in late
    )
    charts = (Bars("Furthest behind, in seconds", bars, "s"),) if bars else ()
    return Section(name, title, tuple(says), charts, (Table(heads, rows, more=more),))


def _seconds(lag: float | None) -> Words:
    return Words(formats.UNKNOWN if lag is None else words.duration(lag))


def quality_section(source: Source) -> Section:
    """What is missing of the data behind every number here."""
    name, title = "quality", "How complete the data is"
    rows: list[Row] = source.read("quality").to_pylist()
    missing = [row for row in rows if not row["complete"]]
    says = []
    if not rows:
        says.append("The analysis wrote down nothing of its completeness: it is unknown.")
    elif not missing:
        says.append(f"All {formats.number(len(rows))} parts that should be there are there.")
    else:
        says.append(
            f"{len(missing)} of {formats.plural(len(rows), 'part')} missing; what they would tell "
            "is in no number of this report."
        )
    left_out = source.analysis.details.get("left_out", ())
    if left_out:
        says.append(f"{formats.plural(len(left_out), 'earlier folder')} damaged and left out.")
    if not missing:
        return Section(name, title, (text(*says),))
    missing.sort(key=lambda r: (r["table"], -1 if r["broker_id"] is None else r["broker_id"]))
    shown, more = capped(missing, "quality")
    cells = tuple(
        (Words(r["table"]), Words("all" if r["broker_id"] is None else str(r["broker_id"])),
         number(r["rows"]), number(r["expected_rows"]), Words(r["reason"] or formats.UNKNOWN))
        for r in shown
    )  # fmt: skip
    heads = columns("Table", "Broker", ">Rows", ">Expected", "Reason")
    return Section(name, title, (text(*says),), tables=(Table(heads, cells, more=more),))


def warnings(source: Source) -> tuple[str, ...]:
    """What a reader must know before any number: brokers and groups that are missing."""
    found = []
    brokers: Sequence[Row] = source.snapshot.details.get("brokers", ()) if source.snapshot else ()
    silent = [b["broker_id"] for b in brokers if not b.get("reachable", True)]
    if silent:
        verb = (
            "did not answer: what it holds is" if len(silent) == 1 else "did not answer: theirs is"
        )
        named = words.first_letter_up(words.brokers(silent))
        found.append(f"{named} {verb} in no number of this report.")
    reasons = source.snapshot.details.get("groups_incomplete", ()) if source.snapshot else ()
    if reasons:
        said = "; ".join(map(str, reasons))
        found.append(f"The list of groups may be incomplete, so nothing may be purged: {said}.")
    return tuple(found)


def brokers_said(source: Source) -> str:
    """`3 of 3 brokers answered`, or that it is not known any more."""
    brokers = source.snapshot.details.get("brokers", ()) if source.snapshot else ()
    if not brokers:
        return "brokers: unknown, the snapshot is not kept any more"
    there = sum(bool(broker.get("reachable", True)) for broker in brokers)
    return f"{there} of {formats.plural(len(brokers), 'broker')} answered"


# How full the disks are and will be, and which topics make them grow.

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


def _disks(source: Source) -> list[DiskRow]:
    """Log dirs by fullness; those of unknown fullness last."""

    def order(row: DiskRow) -> tuple[float, int, str]:
        share = row.used_share
        return (-(share if share is not None else -1), row.broker_id, row.log_dir or "")

    return sorted(records(source.read("disks"), DiskRow), key=order)


def figures(source: Source) -> tuple[Figure, ...]:
    """The fullest disk, and the one that is full first."""
    disks = _disks(source)
    known = [row for row in disks if row.used_share is not None]
    if not known:
        return (Figure("Fullest disk", Words(formats.UNKNOWN), "no broker tells sizes"),)
    share = known[0].used_share or 0.0
    fullest = Figure("Fullest disk", Words(f"{share:.0%}"), _where(known[0], _SHORT))
    rates = headline.of_disks(source.read("growth"))
    untold = _untold(disks, rates)
    filling = [row for row in rates.values() if row.days_to_full is not None]
    if not filling:
        said, note = (formats.UNKNOWN, untold) if untold else ("not filling up", "at today's pace")
        return fullest, Figure("First disk full", Words(said), note)
    first = min(filling, key=headline.order)
    in_days = Words(headline.likely(first).removeprefix("full "))
    sure = headline.between(first.days_to_full_low, first.days_to_full_high)
    note = ", ".join(filter(None, (_where(first, _SHORT), sure, untold)))
    return fullest, Figure("First disk full", in_days, note)


def _untold(disks: Sequence[DiskRow], rates: Rates) -> str:
    """How many log dirs' pace is not known, in words; empty: none's."""
    known = _paced(rates)
    if not known:
        return "not enough history yet"
    without = len(disks) - known
    return f"{formats.plural(without, 'log dir')} of unknown pace" if without > 0 else ""


def _paced(rates: Rates) -> int:
    """Log dirs whose pace is known."""
    return sum(row.used_bytes_per_hour is not None for row in rates.values())


def section(source: Source) -> Section:
    """Every log dir as a bar and a row; the topics that grow fastest."""
    disks = _disks(source)
    growth = source.read("growth")
    rates = headline.of_disks(growth)
    name, title = "disks", "Disks, growth and days to full"
    if not disks:
        return Section(name, title, (text("No broker told its log dirs: their state is unknown."),))
    drawn = (Bar(_where(row), _parts(row)) for row in disks[:MOST_BARS])
    bars = tuple(bar for bar in drawn if any(value for _, value in bar.parts))
    shown, more = capped(disks, "disks")
    rows = tuple(_disk(row, rates.get((row.broker_id, row.log_dir))) for row in shown)
    heads = columns("Broker", "Log dir", ">Total", ">Free", ">Full", ">Reclaimable",
                    ">Orphans", ">Change", "Full in", "Note")  # fmt: skip
    chart = Bars("Log dirs, fullest first: what lies on them", bars)
    tables = [Table(heads, rows, "Log dirs", more), *_topics(growth)]
    return Section(name, title, (_said(disks, rates),), (chart,) if bars else (), tuple(tables))


def _said(disks: Sequence[DiskRow], rates: Rates) -> tuple[Words, ...]:
    dated = [row for row in rates.values() if headline.dated(row)]
    soon = [row for row in dated if (row.days_to_full or 0) <= _WEEK]
    unmeasured = sum(row.used_share is None for row in disks)
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


def _parts(row: DiskRow) -> tuple[tuple[Meaning, float], ...]:
    return tuple(
        (meaning, sum(getattr(row, name) or 0 for name in names)) for meaning, names in _PARTS
    )


def _disk(row: DiskRow, growth: GrowthRow | None) -> tuple[Words, ...]:
    share = row.used_share
    stray, orphan = row.stray_bytes, row.orphan_bytes
    orphans = None if stray is None and orphan is None else (stray or 0) + (orphan or 0)
    note = row.error or ("" if row.inventory_at else "no inventory of this disk")
    return (
        number(row.broker_id),
        Words(row.log_dir or formats.UNKNOWN),
        size(row.total_bytes),
        size(row.usable_bytes),
        Words(formats.UNKNOWN if share is None else f"{share:.0%}"),
        size(row.reclaimable_bytes, RECLAIMABLE if row.reclaimable_bytes else None),
        size(orphans, ORPHAN if orphans else None),
        rate(growth.used_bytes_per_hour if growth else None),
        Words(_full_in(growth), exact=_window(growth)),
        Words(note),
    )


def _full_in(growth: GrowthRow | None) -> str:
    return headline.said(growth).removeprefix("full in ")


def _window(growth: GrowthRow | None) -> str:
    if growth is None or growth.window_seconds is None:
        return ""
    length = formats.duration(timedelta(seconds=growth.window_seconds))
    return f"from {growth.samples} snapshots over {length}"


def _topics(growth: pa.Table) -> list[Table]:
    whole = growth.filter(pc.field("topic").is_valid() & pc.field("broker_id").is_null())
    topics = records(whole, GrowthRow)
    known = [(row.growth_per_hour, row) for row in topics if row.growth_per_hour is not None]
    if not known:
        return []
    known.sort(key=lambda pair: (-pair[0], pair[1].topic))
    shown, more = capped(known, "growth", 10)
    rows = tuple(
        (Words(row.topic or ""), rate(row.bytes_in_per_hour), rate(row.bytes_out_per_hour),
         rate(grows), Words(_window(row)))
        for grows, row in shown
    )  # fmt: skip
    new = len(topics) - len(known)
    left = f"{formats.plural(new, 'topic')} too new to tell" if new else ""
    heads = columns("Topic", ">Written", ">Deleted", ">Growth", "Seen")
    more = "; ".join(said for said in (more, left) if said)
    return [Table(heads, rows, "Topics that grow fastest", more)]


_LONGEST_PATH, _SHORT = 4096, 26  # letters; a tile has room for some


def _where(row: DiskRow | GrowthRow, most: int = _LONGEST_PATH) -> str:
    place = formats.middle(row.log_dir, most) if row.log_dir else "unknown log dir"
    return f"broker {row.broker_id} {place}"
