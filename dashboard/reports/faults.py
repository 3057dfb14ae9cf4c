"""Orphans, slow followers, and how complete the picture is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dashboard.core import words
from dashboard.reports.parts import (
    MOST_BARS,
    Bar,
    Bars,
    Section,
    Table,
    Words,
    capped,
    columns,
    known_sum,
    moment,
    number,
    size,
    text,
)
from dashboard.reports.source import Source
from dashboard.safety.orphan_words import VERDICTS, seen_once
from dashboard.views import formats
from dashboard.views.colours import ORPHAN, Meaning
from dashboard.views.followers import slow_units

Row = Mapping[str, Any]
_LAG = Meaning("behind its leader", "#2f62bd", "#173f8a", "#b9cdf0", "▼")
_MOST_UNITS = 8


def orphans_section(source: Source) -> Section:
    """Folders that the cluster no longer knows, with what may be done with them."""
    name, title = "orphans", "Orphans: bytes that Kafka no longer knows"
    rows = source.rows("orphans")
    rows.sort(key=lambda r: (-(_size(r) or 0), r["broker_id"], r["log_dir"], r["directory"] or ""))
    says = [_unseen(source)] if _unseen(source) else []
    once = seen_once(source.rows("sightings"))
    if once:
        says.append(f"{formats.plural(once, 'folder')} seen once only: no orphan yet.")
    if not rows:
        return Section(name, title, (text("No orphan is known.", *says),))
    total, unmeasured = known_sum(_size(row) for row in rows)
    verdicts = Counter(row["verdict"] for row in rows)
    counted = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS)
    lead = f"{formats.plural(len(rows), 'orphan')} with {formats.size(total)}: {counted}."
    if unmeasured:
        lead += f" {formats.plural(unmeasured, 'size')} unknown."
    shown, more = capped(rows, "orphans")
    cells = tuple(
        (number(r["broker_id"]), Words(r["log_dir"] or formats.UNKNOWN), Words(_name(r)),
         Words(r["kind"]), size(_size(r), ORPHAN), Words(r["verdict"]), Words(r["reason"] or ""),
         moment(r["first_seen_at"]))
        for r in shown
    )  # fmt: skip
    heads = columns("Broker", "Log dir", "Folder", "Kind", ">Bytes", "Verdict", "Why",
                    "First seen (UTC)")  # fmt: skip
    bars = tuple(
        Bar(f"{_name(r)} on {r['broker_id']}", ((ORPHAN, _size(r) or 0),)) for r in rows[:MOST_BARS]
    )
    chart = Bars("The largest orphans", bars)
    charts = (chart,) if chart.longest else ()
    return Section(name, title, (text(lead, *says),), charts, (Table(heads, cells, more=more),))


def _size(row: Row) -> int | None:
    """What the disk gave for it; without an inventory the bytes of its log."""
    found: int | None = row["allocated_bytes"]
    return row["size_bytes"] if found is None else found


def _name(row: Row) -> str:
    return row["directory"] or f"{row['topic']}-{row['partition']}"


def _unseen(source: Source) -> str:
    bare = sorted({r["broker_id"] for r in source.rows("disks") if r["inventory_at"] is None})
    if not bare:
        return ""
    shown = words.brokers(bare) if len(bare) <= _MOST_UNITS else f"{len(bare)} brokers"
    return f"No inventory of {shown}: folders there that Kafka does not list are unknown."


def followers_section(source: Source) -> Section:
    """A sentence for each thing at fault, and the replicas that are furthest behind."""
    name, title = "followers", "Slow followers"
    table = source.read("slow_followers")
    slow = [row for row in table.to_pylist() if row["slow"]]
    if not table.num_rows:
        return Section(name, title, (text("No partition has a follower."),))
    if not slow:
        count = formats.plural(table.num_rows, "follower")
        return Section(name, title, (text(f"None of {count} is slow."),))
    slow.sort(key=lambda r: (r["topic"], r["partition"], r["broker_id"]))
    slow.sort(key=lambda r: r["lag_seconds"] is None)
    slow.sort(key=lambda r: -(r["lag_seconds"] or 0))
    units = slow_units(table)
    says = [text(f"{words.first_letter_up(unit.text)}.") for unit in units[:_MOST_UNITS]]
    if len(units) > _MOST_UNITS:
        says.append(text(f"And {len(units) - _MOST_UNITS} more causes."))
    shown, more = capped(slow, "slow_followers")
    rows = tuple(
        (Words(r["topic"]), number(r["partition"]), number(r["broker_id"]),
         number(r["lag_records"]), size(r["lag_bytes"]), _seconds(r["lag_seconds"]),
         Words(r["trend"] or formats.UNKNOWN), Words("yes" if r["in_sync"] else "no"),
         Words(r["cause"] or formats.UNKNOWN))
        for r in shown
    )  # fmt: skip
    heads = columns("Topic", ">Partition", ">Broker", ">Records", ">Bytes", ">Time", "Trend",
                    "In sync", "Cause")  # fmt: skip
    late = [row for row in slow if row["lag_seconds"]][:MOST_BARS]
    bars = tuple(
        Bar(f"{r['topic']}-{r['partition']} on {r['broker_id']}", ((_LAG, r["lag_seconds"]),))
        for r in late
    )
    charts = (Bars("Furthest behind, in seconds", bars, "s"),) if bars else ()
    return Section(name, title, tuple(says), charts, (Table(heads, rows, more=more),))


def _seconds(lag: float | None) -> Words:
    return Words(formats.UNKNOWN if lag is None else words.duration(lag))


def quality_section(source: Source) -> Section:
    """What is missing of the data behind every number here."""
    name, title = "quality", "How complete the data is"
    rows = source.rows("quality")
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
